# What docker-compose.yml needs of the VictoriaMetrics image, out of Debian's package.
ARG BASE
FROM ${BASE}
RUN apt-get -q update && DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends victoria-metrics wget
VOLUME /storage
ENTRYPOINT ["victoria-metrics"]
