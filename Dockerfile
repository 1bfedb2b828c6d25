# One image for the server, the Spark master and the Spark workers, so that driver and executors have the same Python,
# the same packages and the same Java. Built and run by docker-compose.yml; deploy/README.md says how.

FROM python:3.11-slim-bookworm AS build
ENV UV_PYTHON=/usr/local/bin/python UV_LINK_MODE=copy UV_COMPILE_BYTECODE=1
RUN pip install --no-cache-dir --disable-pip-version-check 'uv>=0.13,<0.14'
WORKDIR /src
# The environment lies where the final image has it: its scripts name their interpreter by path.
COPY requirements/server.lock requirements/server.lock
RUN uv venv /opt/fenceline \
 && uv pip sync --no-cache --python /opt/fenceline/bin/python --require-hashes requirements/server.lock
COPY pyproject.toml README.md LICENSE ./
COPY app app
COPY workers workers
COPY templates templates
COPY migrations migrations
RUN uv pip install --no-cache --python /opt/fenceline/bin/python --no-deps .

FROM python:3.11-slim-bookworm
# tini: drivers are detached from the server and become children of process 1, which must collect them.
# procps: Spark's scripts call ps. bubblewrap: uploaded Python is validated in it, where the engine lets it.
RUN apt-get update \
 && apt-get install --yes --no-install-recommends bubblewrap openjdk-17-jre-headless procps tini \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --create-home --uid 10001 fenceline \
 && install --directory --owner fenceline \
    /var/cache/fenceline /var/lib/checkpoints /var/lib/fenceline /var/lib/spark
COPY --from=build /opt/fenceline /opt/fenceline
ENV PATH=/opt/fenceline/bin:$PATH \
    PYSPARK_PYTHON=/opt/fenceline/bin/python \
    FENCELINE_CACHE_DIR=/var/cache/fenceline \
    FENCELINE_STATE_DIR=/var/lib/fenceline
USER fenceline
# The jars of dataframe pipelines: Spark's Kafka connector, pinned by SHA-256, and the sink, compiled here. A container
# then needs no access to Maven Central; a driver sends them to its executors.
RUN fenceline doctor --fetch --for serve
WORKDIR /home/fenceline
ENTRYPOINT ["tini", "-g", "--"]
CMD ["fenceline", "serve"]
