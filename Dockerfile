# Two images from one file; torch's install page names the index of each of its builds:
#   docker build -t plusone:cuda .                                      (pip's usual build of torch)
#   docker build -t plusone:cpu --build-arg TORCH_INDEX=INDEX_OF_THE_CPU_BUILD .
# Use: docker run --rm -v "$PWD":/data plusone:cpu train photos
#      docker run --rm --gpus all --shm-size 2g -v "$PWD":/data plusone:cuda train photos
# The wheels of torch bring the CUDA libraries; the host brings the driver.
# By digest: a tag can be moved.
ARG BASE=python:3.12.14-slim-bookworm@sha256:0f5b26b9518d002b6173fd61daad821fa340635ebfec5bba471013f9ca114579

FROM ${BASE} AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY src src
COPY recipes recipes
RUN pip install --no-cache-dir "build==1.2.2" && python -m build --wheel --outdir /dist

FROM ${BASE}
ARG TORCH_INDEX=
ARG EXTRAS=lite0,image,plots,review,serve,onnx,parquet
COPY constraints.txt /tmp/constraints.txt
COPY --from=build /dist /tmp/dist
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
RUN pip install --no-cache-dir -c /tmp/constraints.txt ${TORCH_INDEX:+--index-url "${TORCH_INDEX}"} \
        torch torchvision \
    && pip install --no-cache-dir -c /tmp/constraints.txt "$(echo /tmp/dist/*.whl)[${EXTRAS}]" \
    && rm -r /tmp/dist /tmp/constraints.txt \
    && useradd --create-home --uid 1000 plusone
USER 1000
WORKDIR /data
ENTRYPOINT ["plusone"]
CMD ["--help"]
