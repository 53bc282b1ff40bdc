# Training with TRL, or with HOST=verl with veRL, and vLLM on CUDA. From the root of a clone:
#   docker build -f containers/train.Dockerfile -t evoprompt-train .
#   docker build -f containers/train.Dockerfile --build-arg HOST=verl -t evoprompt-train-verl .
#   docker run --rm --gpus all --ipc host -e OPENAI_API_KEY -v "$PWD/runs:/app/runs" -v "$PWD/data:/app/data" \
#     -v "$HOME/.cache/huggingface:/home/evoprompt/.cache/huggingface" evoprompt-train \
#     run examples/search_qa/qwen2.5-0.5b-trl.yaml --dry-run
# CUDA 13 comes with the wheels that the constraints pin; the driver is the machine's, 580 or newer.
FROM python:3.12-slim@sha256:57cd7c3a7a273101a6485ba99423ee568157882804b1124b4dd04266317710de

# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends git g++ \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --create-home --uid 1000 evoprompt
ENV PIP_NO_CACHE_DIR=1 NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
WORKDIR /app
COPY . .
ARG HOST="trl"
ARG VERSION="0.1.0.dev0"
RUN hashes/download /tmp/distributions "constraints-$HOST-vllm.txt" \
    && SETUPTOOLS_SCM_PRETEND_VERSION="$VERSION" pip install \
    --no-index --find-links /tmp/distributions \
    -e ".[$HOST-vllm,lm,lora,tensorboard]" -e plugins/evoprompt-retrieval -e examples/tiny_policy \
    -e "examples/search_qa[data]" -c "constraints-$HOST-vllm.txt" \
    && rm -r /tmp/distributions && mkdir -p runs data && chown evoprompt runs data

USER 1000
ENTRYPOINT ["evoprompt"]
