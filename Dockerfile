# The service and the agent, one image: `docker build -t monitor .`
#
# BASE is a Debian 12 with Python 3.11 or newer and its venv module.  The dashboard needs
# Node.js only while it is built; pip brings one where the base has none.
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS build
WORKDIR /src
RUN python3 -m venv /opt/monitor
COPY setup.cfg setup.py pyproject.toml README.md ./
COPY monitor monitor
COPY migrations migrations
COPY deploy deploy
COPY dashboard dashboard
RUN /opt/monitor/bin/pip install --no-cache-dir --disable-pip-version-check .

FROM ${BASE}
RUN useradd --system --uid 10001 --user-group --home-dir /var/lib/monitor-agent --shell /usr/sbin/nologin monitor \
    && install -d -o monitor -g monitor -m 0700 /var/lib/monitor-agent
COPY --from=build /opt/monitor /opt/monitor
ENV PATH=/opt/monitor/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
USER monitor
VOLUME /var/lib/monitor-agent
EXPOSE 8080
ENTRYPOINT ["monitor"]
CMD ["serve"]
