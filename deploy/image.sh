#!/bin/sh
# Puts the code of one service into a folder, as its image holds it: image.sh SERVICE FOLDER
#
# A service gets its own package and what is shared, never another's code: a stolen agent cannot even read policy's.
set -eu

service=$1
app=$2

mkdir -p "$app/deploy" "$app/services"
cp LICENSE "$app/"
cp -R shared "$app/"
# Links: those to services that are not here lead nowhere.
cp -RP placet "$app/"
cp deploy/__init__.py deploy/readiness.py deploy/rulebook.yaml "$app/deploy/"

case $service in
    cli)
        # The command line prepares the database and the broker, so it knows every service's tables and rights; it
        # purges, erases and verifies too.
        cp -R services/. "$app/services/"
        cp -R deploy/migrations deploy/postgres deploy/rabbitmq deploy/retention deploy/keys.py "$app/deploy/"
        ;;
    *)
        cp -R "services/$service" "$app/services/"
        ;;
esac
