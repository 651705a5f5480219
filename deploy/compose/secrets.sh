#!/bin/sh
# Make the secrets of docker-compose.yml, once: what is there stays as it is.
set -eu

# Others cannot enter the folder.  The files are readable, as the containers' users are not ours.
folder=$(dirname "$0")/secrets
mkdir -p "$folder"
chmod 700 "$folder"
umask 022

# keep NAME: write standard input unless there is such a secret.
keep() {
    if [ -e "$folder/$1" ]; then
        cat >/dev/null
    else
        cat >"$folder/$1"
        echo "made $folder/$1"
    fi
}

random() {
    head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n'
}

random | keep postgres_password
random | keep monitor_owner_password
random | keep monitor_app_password
random | keep jwt_secrets
printf 'postgresql://monitor_app:%s@postgres:5432/monitor' "$(cat "$folder/monitor_app_password")" | keep postgres_dsn
printf 'postgresql://monitor_owner:%s@postgres:5432/monitor' "$(cat "$folder/monitor_owner_password")" | keep postgres_owner_dsn
# Filled by hand, for the agent: docs/operations.md.
keep agent_api_key </dev/null
