# The daemon and PySpark, for a container next to Airflow. Mounts: the configuration at /etc/watcher (read-only), and
# /var/lib/watcher (this machine's local disk, kept over restarts). With a read-only root, /tmp must be writable too:
# Docker gives both volumes below by itself, in Kubernetes they are emptyDir or a claim. Those may be open to others; the
# daemon's home, a folder in the first, is made closed to all but its own account.

ARG PYTHON=3.12
ARG DEBIAN=bookworm

FROM python:${PYTHON}-slim-${DEBIAN} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1
WORKDIR /src
RUN python -m venv /opt/watcher
COPY requirements/build.txt requirements/runtime.txt requirements/
RUN /opt/watcher/bin/pip install --require-hashes -r requirements/build.txt \
 && /opt/watcher/bin/pip install --require-hashes --no-build-isolation -r requirements/runtime.txt
COPY pyproject.toml README.md LICENSE ./
COPY config config
COPY store store
COPY triggers triggers
COPY watcher watcher
RUN /opt/watcher/bin/pip install --no-deps --no-build-isolation . \
 && /opt/watcher/bin/pip uninstall --yes setuptools pip

FROM python:${PYTHON}-slim-${DEBIAN}
LABEL org.opencontainers.image.title="Asset Watcher" \
      org.opencontainers.image.description="New files and new rows, each exactly once, to PySpark jobs, next to Apache Airflow" \
      org.opencontainers.image.licenses="Apache-2.0"
# hadolint ignore=DL3008  # the distribution keeps no older package versions that could be pinned
RUN apt-get update \
 && apt-get install --yes --no-install-recommends openjdk-17-jre-headless tini \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --uid 10001 --no-create-home --home-dir /var/lib/watcher --shell /usr/sbin/nologin watcher \
 && install --directory --owner=watcher --mode=0700 /var/lib/watcher \
 && install --directory /etc/watcher
COPY --from=build /opt/watcher /opt/watcher
# Where the class archive is; an image built on this one, with another Java or Spark, makes its own by the line below.
ENV PATH=/opt/watcher/bin:$PATH \
    XDG_CACHE_HOME=/opt/watcher/cache
RUN watcher spark archive
ENV PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    WATCHER_CONFIG=/etc/watcher/watchers.yaml \
    WATCHER_SETTINGS__HOME=/var/lib/watcher/home \
    WATCHER_SETTINGS__API__HOST=0.0.0.0
USER 10001
WORKDIR /var/lib/watcher
VOLUME ["/var/lib/watcher", "/tmp"]
EXPOSE 8795
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8795/healthz', timeout=4).close()"]
# Drivers live in this container and end with it: --cancel-jobs stops them in order first.
ENTRYPOINT ["tini", "--", "watcher", "run", "--cancel-jobs"]
