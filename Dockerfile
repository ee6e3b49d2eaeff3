# The daemon and PySpark, for a container next to Airflow. docs/container.md tells how to run it, and how to build on it.
# Mounts: the configuration at /etc/watcher (read-only), and /var/lib/watcher (this machine's local disk, kept over
# restarts). With a read-only root, /tmp must be writable too: Docker gives both volumes below by itself, in Kubernetes they
# are emptyDir or a claim. Those may be open to others, and belong to whomever; the daemon's home, a folder in the first,
# is made closed to all but its own account.

ARG PYTHON=3.12
ARG DEBIAN=bookworm
# For builds that can be repeated, by digest: --build-arg BASE=python@sha256:…
ARG BASE=python:${PYTHON}-slim-${DEBIAN}

FROM ${BASE} AS system
# hadolint ignore=DL3008  # the distribution keeps no older package versions that could be pinned
RUN apt-get update \
 && apt-get install --yes --no-install-recommends libnss-extrausers tini \
 && rm -rf /var/lib/apt/lists/* /var/cache/* /var/log/apt /var/log/dpkg.log \
 && sed --in-place 's/^passwd:.*/passwd: files extrausers/' /etc/nsswitch.conf \
 && install --directory /var/lib/extrausers && ln --symbolic /tmp/watcher.passwd /var/lib/extrausers/passwd \
 && if python -m pip --version; then python -m pip uninstall --yes wheel setuptools pip; fi \
 && useradd --uid 10001 --gid 0 --no-create-home --home-dir /var/lib/watcher --shell /usr/sbin/nologin watcher \
 && install --directory --mode=1777 /var/lib/watcher \
 && install --directory /etc/watcher

# Java without its compiler, in half of the room. It trusts whom the system trusts. The manual's folder, which slim bases leave
# out, is needed by Java's installation. A stage of its own: engines that can make it while the packages are installed.
FROM system AS java
WORKDIR /src
COPY tools/image/settle.py tools/image/
# hadolint ignore=DL3008
RUN mkdir --parents /usr/share/man/man1 \
 && apt-get update \
 && apt-get install --yes --no-install-recommends openjdk-17-jdk-headless \
 && jlink --no-header-files --no-man-pages --compress=2 --output /opt/java --add-modules \
java.se,jdk.charsets,jdk.crypto.cryptoki,jdk.crypto.ec,jdk.httpserver,jdk.incubator.vector,jdk.jcmd,jdk.jfr,jdk.localedata,\
jdk.management,jdk.management.agent,jdk.naming.dns,jdk.net,jdk.nio.mapmode,jdk.security.auth,jdk.security.jgss,\
jdk.unsupported,jdk.xml.dom,jdk.zipfs \
 && cp --dereference /etc/ssl/certs/java/cacerts /opt/java/lib/security/cacerts \
 && python tools/image/settle.py /opt/java \
 && /opt/java/bin/java -Xshare:dump

# Few instructions, because each is committed: Spark is in one that installs it and takes out what is not needed. What dpkg
# knew before is what stays of Debian's.
FROM system AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_NO_COMPILE=1 UV_NO_CACHE=1 UV_COMPILE_BYTECODE=0 \
    DIST_EXTRA_CONFIG=/src/requirements/wheels.cfg \
    JAVA_HOME=/opt/java \
    PATH=/opt/watcher/bin:/opt/java/bin:$PATH \
    XDG_CACHE_HOME=/opt/watcher/cache
WORKDIR /src
COPY tools/install tools/
COPY tools/image/slim.py tools/image/settle.py tools/image/
COPY requirements/build.txt requirements/runtime.txt requirements/image.txt requirements/wheels.cfg requirements/
# hadolint ignore=DL3008
RUN cp --recursive /var/lib/dpkg /opt/dpkg \
 && apt-get update && apt-get install --yes --no-install-recommends binutils \
 && python -m venv /opt/watcher && python -m venv /opt/tools \
 && /opt/watcher/bin/pip install --require-hashes -r requirements/build.txt \
 && tools/install /opt/watcher/bin/python /opt/watcher/bin/python --require-hashes --no-build-isolation -r requirements/runtime.txt \
 && tools/install /opt/watcher/bin/python /opt/tools/bin/python --require-hashes -r requirements/image.txt \
 && python tools/image/slim.py /opt/watcher \
 && python tools/image/settle.py /opt/watcher \
 && python -m compileall -q -j 0 /opt/watcher/lib
COPY --from=java /opt/java /opt/java
COPY --from=java /var/lib/dpkg /opt/dpkg-with-java
COPY pyproject.toml README.md LICENSE ./
COPY config config
COPY store store
COPY triggers triggers
COPY watcher watcher
COPY sdk/asset_job sdk/asset_job
COPY tools/image/sbom.py tools/image/
ARG VERSION=unknown
# The class archive; an image built on this one, with another Java or Spark, makes its own by the same command.
RUN pip install --no-deps --no-build-isolation . \
 && pip uninstall --yes setuptools uv pip \
 && python tools/image/settle.py /opt/watcher \
 && python -m compileall -q -j 0 /opt/watcher/lib \
 && watcher spark archive \
 && /opt/tools/bin/python tools/image/sbom.py /opt/watcher /opt/dpkg /opt/dpkg-with-java "${VERSION}" >/opt/watcher/sbom.cdx.json

FROM system
COPY --from=build /opt/java /opt/java
COPY --from=build /opt/watcher /opt/watcher
COPY tools/image/entry /usr/local/bin/watcher-entry
# Times of its own fit `docker stop`, which kills after ten seconds.
ENV PATH=/opt/watcher/bin:/opt/java/bin:$PATH \
    JAVA_HOME=/opt/java \
    XDG_CACHE_HOME=/opt/watcher/cache \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    WATCHER_CONFIG=/etc/watcher/watchers.yaml \
    WATCHER_SETTINGS__HOME=/var/lib/watcher/home \
    WATCHER_SETTINGS__API__HOST=0.0.0.0 \
    WATCHER_SETTINGS__TRIGGERER__GRACE=8s
USER 10001:0
WORKDIR /var/lib/watcher
VOLUME ["/var/lib/watcher", "/tmp"]
EXPOSE 8795
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 CMD ["python", "-P", "-m", "watcher.probe"]
ENTRYPOINT ["tini", "--", "watcher-entry"]
# Drivers live in this container and end with it: --cancel-jobs stops them in order first.
CMD ["run", "--cancel-jobs"]
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Asset Watcher" \
      org.opencontainers.image.description="New files and new rows, each exactly once, to PySpark jobs, next to Apache Airflow" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
