#!/usr/bin/env bash
# Prints the Python that `make setup` takes: of those on the PATH and in /usr/bin that are new enough and have ensurepip,
# the first, unless another runs plain Python code much faster. Pythons that somebody compiled with the plain settings
# often do so at half the speed of a distribution's, and so does all of Placet then.
set -u

speed='
import sys
if sys.version_info < (3, 11):
    sys.exit(1)
try:
    import ensurepip
except ImportError:
    sys.exit(1)
import json
from time import thread_time
from types import SimpleNamespace

def work():
    made = [SimpleNamespace(number=number, name=f"call {number}") for number in range(4000)]
    told = json.loads(json.dumps([[each.name, each.number + 1] for each in made if each.number % 3]))
    return sorted(told, key=lambda row: -row[1])

def seconds():
    began = thread_time()
    work()
    return thread_time() - began

print(int(min(seconds() for _ in range(10)) * 1e6))
'

first='' best='' fastest=0
while read -r python; do
    # Its own version alone: what a person said on the command line decides, and not what is asked here.
    if [ -z "$first" ] && "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' > /dev/null 2>&1; then
        first=$python
    fi
    microseconds=$("$python" -c "$speed" 2> /dev/null) || continue
    if [ -z "$best" ] || [ $((microseconds * 5)) -lt $((fastest * 4)) ]; then
        best=$python fastest=$microseconds
    fi
done < <(for name in python3.11 python3.12 python3.13 python3.14 python3; do
    type -ap "$name"
    [ -x "/usr/bin/$name" ] && echo "/usr/bin/$name"
done | awk '!seen[$0]++')
# One without ensurepip is named where there is no other, so that the set-up can say what it lacks.
echo "${best:-$first}"
