#!/bin/sh
# Run by the Postgres image when it makes its data folder: the two roles and the database.
set -eu

# Through psql's variables: a password may hold what SQL takes for its own.
psql --set ON_ERROR_STOP=1 --username "${POSTGRES_USER:-postgres}" --dbname postgres \
    --set owner="$(cat /run/secrets/monitor_owner_password)" \
    --set app="$(cat /run/secrets/monitor_app_password)" <<'SQL'
CREATE ROLE monitor_owner LOGIN PASSWORD :'owner';
CREATE ROLE monitor_app LOGIN PASSWORD :'app';
CREATE DATABASE monitor OWNER monitor_owner;
SQL
