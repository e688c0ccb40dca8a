"""Files around the package that nothing else reads here: they are valid and agree with it."""

import re
import shutil
import subprocess
import sysconfig
import tomllib
from pathlib import Path

import pytest

from plusone.version import __version__

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def test_the_citation_names_this_version():
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r"^version: (.+)$", text, re.MULTILINE)[1] == __version__


def test_workflows_call_what_there_is():
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    jobs = {}
    for path in WORKFLOWS:
        jobs |= yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"]
    versions = jobs["tests"]["strategy"]["matrix"]["python"]
    lowest = re.search(r'^requires-python = ">=(.+)"', project, re.MULTILINE)[1]
    assert versions[0] == lowest
    commands = "\n".join(step.get("run", "") for job in jobs.values() for step in job["steps"])
    targets = re.findall(r"\bmake (\S+)", commands)
    assert targets
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    for extras in re.findall(r"\[([a-z0-9,]+)\]", commands):
        for extra in extras.split(","):
            assert re.search(rf"^{extra} = ", project, re.MULTILINE), extra
    for name in re.findall(r"tests/[\w/]+\.py", commands):
        assert (ROOT / name).exists(), name


def test_what_others_can_change_is_pinned():
    """Actions by commit, base images by digest, hooks by version; packages from one index."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in WORKFLOWS)
    used = re.findall(r"uses: (.+)", text)
    assert used
    for action in used:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+", action), action
    assert "extra-index" not in text.lower().replace("_", "-")
    image = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    assert set(re.findall(r"^FROM (\S+)", image, re.MULTILINE)) == {"${BASE}"}
    assert re.search(r"^ARG BASE=\S+@sha256:[0-9a-f]{64}$", image, re.MULTILINE)
    hooks = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    for package in re.findall(r'additional_dependencies: \["(.+?)"\]', hooks):
        assert re.fullmatch(r"[\w-]+==[\d.]+", package), package


def test_bug_reports_ask_for_the_doctor():
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    form = yaml.safe_load((ROOT / ".github" / "ISSUE_TEMPLATE" / "bug.yml").read_text("utf-8"))
    (field,) = (part for part in form["body"] if part.get("id") == "doctor")
    assert "plusone doctor" in field["attributes"]["label"]
    assert field["validations"]["required"] is True


def test_the_dockerfile_has_no_findings():
    program = shutil.which("hadolint", path=sysconfig.get_path("scripts"))
    if program is None:
        pytest.skip("hadolint is not installed")
    done = subprocess.run([program, ROOT / "Dockerfile"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_the_recipe_of_conda_is_that_of_the_package():
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    recipe = yaml.safe_load((ROOT / "conda" / "recipe.yaml").read_text(encoding="utf-8"))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert recipe["context"]["version"] == __version__
    own = [f"python {project['requires-python']}", *project["dependencies"]]
    needed = [re.sub(r"^torch(?=>)", "pytorch", line) for line in own]
    runs = [line.replace("${{ python_min }}", "3.11") for line in recipe["requirements"]["run"]]
    assert [line.replace(" ", "") for line in runs] == [line.replace(" ", "") for line in needed]
    (entry,) = recipe["build"]["python"]["entry_points"]
    assert entry == f"plusone = {project['scripts']['plusone']}"
    assert recipe["about"]["license"] == project["license"]


def test_a_release_needs_its_tag_and_its_changelog():
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
    (pattern,) = re.findall(r"sed -n 's/(.+)/\\1/p' src/plusone/version.py", text)
    source = (ROOT / "src" / "plusone" / "version.py").read_text(encoding="utf-8")
    assert re.findall(pattern.replace(r"\(", "(").replace(r"\)", ")"), source, re.MULTILINE) == [
        __version__
    ]
    assert f"\n## [{__version__}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_dockerfile_copies_what_there_is():
    text = (ROOT / "Dockerfile").read_text(encoding="utf-8")
    ignored = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    copied = [
        name
        for line in re.findall(r"^COPY (?!--)(.+) \S+$", text, re.MULTILINE)
        for name in line.split()
    ]
    assert "src" in copied
    for name in copied:
        assert (ROOT / name).exists(), name
        assert f"!{name}" in ignored, name
    for extra in re.search(r"^ARG EXTRAS=(.+)$", text, re.MULTILINE)[1].split(","):
        assert re.search(rf"^{extra} = ", project, re.MULTILINE), extra
