# The image of `paddock operator`, `paddock dispatch` and of the container that waits in a runner Pod (`paddock poll`).
# It holds Python, the locked dependencies, the node agent's bundle for Macs and nothing else: no compiler, no tool of the
# build, no embedded database.
#
# A release build pins the base by its digest, too: `--build-arg BASE_DIGEST=@sha256:…` (see CONTRIBUTING.md).
ARG BASE_DIGEST=""
FROM python:3.13-slim-bookworm${BASE_DIGEST} AS build

WORKDIR /src
COPY hack/requirements ./hack/requirements
RUN pip install --no-cache-dir --require-hashes -r hack/requirements/uv.txt
ENV UV_PROJECT_ENVIRONMENT=/opt/paddock \
    UV_PYTHON_DOWNLOADS=never \
    UV_LINK_MODE=copy \
    UV_COMPILE_BYTECODE=1

# The dependencies alone: this layer is built again only when the lock file changes.
COPY pyproject.toml uv.lock ./
RUN uv sync --frozen --no-dev --no-install-project

COPY README.md LICENSE ./
COPY src ./src
# The pages that the problems on the web page lead to.
COPY docs/runbooks ./docs/runbooks
RUN uv build --quiet --wheel --out-dir /dist --build-constraints hack/requirements/build.txt --require-hashes && \
    uv pip install --quiet --no-deps --python /opt/paddock/bin/python /dist/*.whl

# The node agent's bundle, around the interpreter of src/paddock/pins.toml. An image without one cannot prepare a Mac, so it is
# built only where `--build-arg AGENT_BUNDLE=none` asks for it: a fleet then needs a fleet file, and `paddock doctor` says so.
ARG AGENT_BUNDLE=pinned
COPY hack/agent-bundle ./hack/agent-bundle
RUN mkdir -p /opt/paddock/share && case "$AGENT_BUNDLE" in \
    pinned) PYTHONPATH=hack/agent-bundle python3 -m agent_bundle build \
        --out /opt/paddock/share/paddock-node-agent-darwin-arm64.tar.gz ;; \
    none) echo "no bundle of the node agent, as AGENT_BUNDLE says" ;; \
    *) echo "AGENT_BUNDLE is pinned or none" >&2; exit 1 ;; esac

FROM python:3.13-slim-bookworm${BASE_DIGEST}

LABEL org.opencontainers.image.title="paddock" \
      org.opencontainers.image.description="Runs Apple-silicon CI fleets: every host, claim, Pod and job is accounted for." \
      org.opencontainers.image.licenses="MIT"

COPY --from=build /opt/paddock /opt/paddock
# The user below has no entry and thus no home: without one, a look for ~/.kube/config would fail.
ENV PATH=/opt/paddock/bin:/usr/local/bin:/usr/bin:/bin \
    HOME=/tmp \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1

# Nobody: the root file system is read-only where the chart runs it, and nothing here needs to be written but /tmp.
USER 65532:65532
WORKDIR /tmp
ENTRYPOINT ["paddock"]
CMD ["--help"]
