#!/bin/sh
# The first start makes the data folder and runs the scripts of /docker-entrypoint-initdb.d.
set -eu

as_postgres() {
    setpriv --reuid postgres --regid postgres --init-groups env HOME=/var/lib/postgresql "$@"
}

install -d -o postgres -g postgres -m 0700 "$PGDATA"
if [ ! -s "$PGDATA/PG_VERSION" ]; then
    password=$(mktemp)
    cat "$POSTGRES_PASSWORD_FILE" >"$password"
    chown postgres "$password"
    # shellcheck disable=SC2086 # the arguments are words
    as_postgres initdb --username postgres --pwfile "$password" --auth-host scram-sha-256 $POSTGRES_INITDB_ARGS
    rm "$password"
    echo "host all all all scram-sha-256" >>"$PGDATA/pg_hba.conf"
    as_postgres pg_ctl --wait --options "-c listen_addresses=''" start
    for script in /docker-entrypoint-initdb.d/*.sh; do
        as_postgres sh "$script"
    done
    as_postgres pg_ctl --wait --mode fast stop
fi
program=$1
shift
exec setpriv --reuid postgres --regid postgres --init-groups "$program" -c "listen_addresses=*" "$@"
