# Training with TRL and vLLM on CUDA. From the root of a clone:
#   docker build -f containers/train.Dockerfile -t evoprompt-train .
#   docker run --rm --gpus all --ipc host -e OPENAI_API_KEY -v "$PWD/runs:/app/runs" -v "$PWD/data:/app/data" \
#     -v "$HOME/.cache/huggingface:/home/evoprompt/.cache/huggingface" evoprompt-train \
#     run examples/search_qa/qwen2.5-0.5b-trl.yaml --dry-run
FROM nvidia/cuda:12.8.1-devel-ubuntu24.04@sha256:520292dbb4f755fd360766059e62956e9379485d9e073bbd2f6e3c20c270ed66

# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends git python3.12-dev python3.12-venv gcc \
    && rm -rf /var/lib/apt/lists/* \
    && python3.12 -m venv /opt/venv \
    && usermod --login evoprompt --home /home/evoprompt --move-home ubuntu
ENV PATH="/opt/venv/bin:$PATH"
WORKDIR /app
COPY . .
ARG VERSION="0.1.0.dev0"
RUN SETUPTOOLS_SCM_PRETEND_VERSION="$VERSION" pip install --no-cache-dir \
    -e ".[trl-vllm,lm,tensorboard]" -e plugins/evoprompt-retrieval -e examples/tiny_policy \
    -e "examples/search_qa[data]" -c constraints-trl-vllm.txt \
    && mkdir -p runs data && chown evoprompt runs data

USER 1000
ENTRYPOINT ["evoprompt"]
