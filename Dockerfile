# The image of `paddock operator`, `paddock dispatch` and of the container that waits in a runner Pod (`paddock poll`).
# It holds Python, the locked dependencies and nothing else: no compiler, no tool of the build, no embedded database.
#
# A release build pins the base by its digest, too: `--build-arg BASE_DIGEST=@sha256:…` (see CONTRIBUTING.md).
ARG BASE_DIGEST=""
FROM python:3.13-slim-bookworm${BASE_DIGEST} AS build

RUN pip install --no-cache-dir uv==0.13.7
WORKDIR /src
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
RUN uv sync --frozen --no-dev --no-editable

FROM python:3.13-slim-bookworm${BASE_DIGEST}

LABEL org.opencontainers.image.title="paddock" \
      org.opencontainers.image.description="Runs Apple-silicon CI fleets: every host, claim, Pod and job is accounted for." \
      org.opencontainers.image.licenses="MIT"

COPY --from=build /opt/paddock /opt/paddock
ENV PATH=/opt/paddock/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1

# Nobody: the root file system is read-only where the chart runs it, and nothing here needs to be written but /tmp.
USER 65532:65532
WORKDIR /tmp
ENTRYPOINT ["paddock"]
CMD ["--help"]
