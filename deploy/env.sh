#!/bin/sh
# Writes what is missing in the environment file of compose.yaml: a random password each. Lines that are there stay.
#
#   deploy/env.sh [FILE]      (.env by default)
set -eu
umask 077

file=${1:-.env}
added=0

# In a new file, the demo's own executor and its payment provider; take the line out where you bring your own rulebook.
[ -e "$file" ] || printf '%s\n' '# Passwords of this installation; keep them secret. Further settings: deploy/example.env' \
    COMPOSE_PROFILES=demo > "$file"

services="GATEWAY AGENT POLICY APPROVAL NOTIFIER EXECUTOR JOBS DEAD_LETTERS"
names="PLACET_DATABASE_PASSWORD_ADMIN PLACET_DATABASE_PASSWORD_OWNER"
for service in $services; do
    names="$names PLACET_DATABASE_PASSWORD_$service PLACET_RABBITMQ_PASSWORD_$service"
done

for name in $names; do
    if ! grep -q "^$name=." "$file"; then
        # Hexadecimal, so that it stands in a URL as it is.
        password=$(od -An -N24 -tx1 /dev/urandom | tr -d ' \n')
        printf '%s=%s\n' "$name" "$password" >> "$file"
        added=$((added + 1))
    fi
done
chmod 600 "$file"
echo "$file: $added passwords added"
