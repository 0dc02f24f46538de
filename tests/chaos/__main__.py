"""Run a storm, print what it was and what is left, and end with 1 where a promise was broken."""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.load import Load
from tests.chaos.report import Verdict, judged, still_open
from tests.support.faults import OF_PROCESSES, OF_THE_HOUSE, Fault, name_of
from tests.support.ground import Ground, a_ground

REPLICAS = {
    "gateway": 1,
    "agent": 2,
    "policy": 2,
    "approval": 2,
    "notifier": 1,
    "executor": 3,
    "jobs": 1,
    "dead_letters": 1,
}
#: Faults of single processes that come together, beside one of the broker or the database.
AT_ONCE_MAX = 3
#: Conversations that go on at once.
TALKING = 24
#: How long everything may take to come to its end once the storm is over, in seconds.
QUIET_SECONDS = 300.0


@dataclass
class Weather:
    """What the storm was."""

    faults: Counter[str] = field(default_factory=Counter)
    #: By kind, the longest time until every service was ready again, in seconds, whatever else came with it.
    heal: dict[str, float] = field(default_factory=dict)


class Bag:
    """Faults in an order of chance; every kind comes before any comes again as often as its weight says."""

    def __init__(self, weights: Mapping[Fault, int], dice: random.Random) -> None:
        self._weights, self._dice = weights, dice
        # Of a short storm each kind is a part, too.
        self._left = dice.sample(list(weights), len(weights))

    def draw(self) -> Fault:
        """Return the next one."""
        if not self._left:
            self._left = [fault for fault, weight in self._weights.items() for _ in range(weight)]
            self._dice.shuffle(self._left)
        return self._left.pop()


async def rage(ground: Ground, dice: random.Random, minutes: float, weather: Weather) -> None:
    """Break several things at once, again and again, each time until every service is ready again."""
    ends = time.monotonic() + minutes * 60
    single, house = Bag(OF_PROCESSES, dice), Bag(OF_THE_HOUSE, dice)
    while time.monotonic() < ends:
        chosen = [house.draw(), *(single.draw() for _ in range(dice.randint(1, AT_ONCE_MAX)))]
        print("breaking:", ", ".join(map(name_of, chosen)), flush=True)  # noqa: T201 - what a log of CI is read for
        await asyncio.gather(*(fault(ground, dice) for fault in chosen))
        took = await ground.healed()
        for name in map(name_of, chosen):
            weather.faults[name] += 1
            weather.heal[name] = max(took, weather.heal.get(name, 0.0))
        await asyncio.sleep(dice.uniform(0.0, 0.5))


async def storm(seed: int, minutes: float, folder: Path, weather: Weather) -> Verdict:
    """Have a storm over a system of its own; note what it was, and return what is left."""
    dice = random.Random(seed)  # noqa: S311 - a storm that can be repeated
    here = Path(__file__).parent
    environment = {
        "PLACET_MODEL": "python/tests.chaos.model:reply",
        "PLACET_TEST_LEDGER": str(folder / "ledger.jsonl"),
        "PLACET_TOOLS": str(here.parents[1]),
        "SEED": str(seed),
    }
    async with a_ground(folder, here / "rulebook.yaml", REPLICAS, environment) as ground:
        system = ground.system
        keys = system.key("chat", person="storm"), system.key("decide", person="grace")
        load = Load(system.url, system.database_url, *keys)
        async with load.going_on(TALKING):
            await rage(ground, dice, minutes, weather)
            try:
                await load.end(QUIET_SECONDS)
            except AssertionError as error:
                # What is not over by now counts as unanswered.
                open_ = still_open(system.database_url)
                print(f"{error}; open: {open_}\n{await ground.unrest(system.processes)}")  # noqa: T201 - see above
        return await asyncio.to_thread(judged, system.database_url, folder / "ledger.jsonl", load.accepted)


def told(seed: int, minutes: float, weather: Weather, verdict: Verdict) -> str:
    """Return the report."""
    faults, kinds = weather.faults.total(), len(weather.faults)
    worst = max(weather.heal, key=lambda kind: weather.heal[kind], default="")
    lines = [
        f"storm: seed {seed}, {minutes:g} minutes, {verdict.calls} calls, {faults} faults of {kinds} kinds",
        *(
            f"  {kind:<22}{count:>5}   healed within {weather.heal[kind]:5.1f} s"
            for kind, count in sorted(weather.faults.items())
        ),
        f"results: {json.dumps(dict(verdict.results), sort_keys=True)}",
        f"dead letters {sum(verdict.dead_letters.values())}",
        *(f"  {count} of {why}" for why, count in verdict.dead_letters.items()),
        f"worst time to heal: {weather.heal.get(worst, 0.0):.1f} s ({worst})",
        f"lost {verdict.lost} · doubled {verdict.doubled} · unauthorised {verdict.unauthorised}",
        f"unanswered {verdict.unanswered} · invariants broken {len(verdict.broken)}",
    ]
    for name, broken in verdict.broken.items():
        lines += [f"  {name}: {each.subject}: {each.found}" for each in (broken or [])[:3]]
    # None of so many says only this much of how many there are at most.
    lines.append(f"none of {verdict.calls} calls: fewer than {3 / max(verdict.calls, 1):.2%} with 95 % confidence")
    return "\n".join(lines)


def main() -> int:
    """Run the storm that the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    parser.add_argument("--minutes", type=float, default=0.5)
    parser.add_argument("--keep", type=Path, help="Keep logs and ledger in this folder.")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="placet-chaos-") as temporary:
        folder = asked.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        print(f"chaos: SEED={asked.seed} MINUTES={asked.minutes:g}", flush=True)  # noqa: T201 - the command's output
        weather = Weather()
        try:
            verdict = asyncio.run(storm(asked.seed, asked.minutes, folder, weather))
        except KeyboardInterrupt:
            print("broken off; faults so far:", json.dumps(dict(weather.faults), sort_keys=True))  # noqa: T201
            return 130
    print(told(asked.seed, asked.minutes, weather, verdict))  # noqa: T201 - the command's output
    # Where nothing was asked or broken, nothing was seen.
    return 0 if verdict.good and verdict.calls and weather.faults else 1


if __name__ == "__main__":
    sys.exit(main())
