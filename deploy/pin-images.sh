#!/bin/sh
# Pins the images that compose.yaml names to what their registry has under these names now: each by its digest, so that
# the next build and the next machine have the very same. Run again for newer ones, and look at what changed.
#
#   deploy/pin-images.sh [FILE]      (.env by default; DOCKER=podman for another program)
set -eu
umask 077

file=${1:-.env}
docker=${DOCKER:-docker}
here=$(dirname "$0")

[ -e "$file" ] || : > "$file"
sed -n 's/.*\${\(PLACET_IMAGE_[A-Z]*\):-\([^}]*\)}.*/\1 \2/p' "$here/../compose.yaml" | sort -u |
while read -r variable image; do
    "$docker" pull --quiet "$image" > /dev/null
    digest=$("$docker" image inspect --format '{{range .RepoDigests}}{{println .}}{{end}}' "$image" |
        sed -n 's/.*@\(sha256:[0-9a-f]\{64\}\)$/\1/p' | head -n 1)
    if [ -z "$digest" ]; then
        echo "$image: the registry gave it no digest" >&2
        exit 1
    fi
    grep -v "^$variable=" "$file" > "$file.new" || :
    echo "$variable=$image@$digest" >> "$file.new"
    mv "$file.new" "$file"
    echo "$variable=$image@$digest"
done
