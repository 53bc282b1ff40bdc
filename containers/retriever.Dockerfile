# The search server with BM25. From the root of a clone:
#   docker build -f containers/retriever.Dockerfile -t evoprompt-retriever .
#   docker run --rm -p 127.0.0.1:8000:8000 -v "$PWD/data:/data" evoprompt-retriever \
#     --corpus /data/passages.jsonl --index /data/index --workers 4
# Docker kills 10 seconds after it asked to end; with a longer --drain, give --stop-timeout.
FROM python:3.12-slim@sha256:57cd7c3a7a273101a6485ba99423ee568157882804b1124b4dd04266317710de

ENV PIP_NO_CACHE_DIR=1
RUN useradd --create-home --uid 1000 evoprompt
WORKDIR /src
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY evoprompt evoprompt
COPY adapters adapters
COPY plugins/evoprompt-retrieval plugins/evoprompt-retrieval
COPY hashes hashes
ARG EXTRA=""
ARG VERSION="0.1.0.dev0"
RUN if [ -z "$EXTRA" ]; then list=retriever.txt; else list=constraints.txt; fi \
    && hashes/download /tmp/distributions "$list" \
    && SETUPTOOLS_SCM_PRETEND_VERSION="$VERSION" pip install \
    --no-index --find-links /tmp/distributions \
    . "./plugins/evoprompt-retrieval$EXTRA" -c constraints.txt \
    && rm -r /tmp/distributions

USER 1000
WORKDIR /home/evoprompt
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=300s CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health')"]
ENTRYPOINT ["evoprompt", "retriever", "serve", "--host", "0.0.0.0", "--port", "8000"]
