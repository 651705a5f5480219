# What docker-compose.yml needs of the Postgres image, out of Debian's package.
ARG BASE
FROM ${BASE}
RUN apt-get -q update && DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends postgresql-15
ENV PATH=/usr/lib/postgresql/15/bin:$PATH PGDATA=/var/lib/postgresql/data
COPY postgres.sh /usr/local/bin/entrypoint
RUN chmod 755 /usr/local/bin/entrypoint && install -d -o postgres -g postgres /var/run/postgresql
VOLUME /var/lib/postgresql/data
STOPSIGNAL SIGINT
ENTRYPOINT ["entrypoint"]
CMD ["postgres"]
