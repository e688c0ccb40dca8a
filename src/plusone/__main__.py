"""`python -m plusone`."""

from plusone.cli.app import main

main()
