"""Earlier records that a study learns from, and what the user should know of them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from devices.errors import InputError
from devices.profile import Profile, read_profile
from tuner.checks import check_prior, gives_away
from tuner.library import ended_document, study_record
from tuner.outcome import Stopped
from tuner.specification import Specification
from tuner.store import Store, StoredStudy, open_store
from tuner.study import Study

_FINISHED = (Stopped.CONVERGED.value, Stopped.BUDGET.value)
_LOOK_BACK = 100  # studies of a store that are looked at for one to learn from


def prior_records(named: Sequence[str], location: str) -> tuple[Profile, ...]:
    """The records named with `--prior`, studies from the store at `location`.

    Raises:
        InputError: neither a file nor a study, or nothing was measured yet.
        ProfileError: a file that is no profile.
    """
    if not named:
        return ()
    with closing(open_store(location)) as store:
        return tuple(prior_record(what, store) for what in named)


def prior_record(what: str, store: Store) -> Profile:
    """An earlier record to learn from: a recorded profile, or what a study in the store measured.

    Raises:
        InputError: neither a file nor a study, or nothing was measured yet.
        ProfileError: a file that is no profile.
    """
    if Path(what).is_file():
        return read_profile(Path(what))
    study = store.load(what)
    if study is None:
        raise InputError(
            f"--prior {what} is neither a file nor a study", hint="a recorded profile, or a name of: tune list"
        )
    if not any(trial.measurement for trial in study.trials):
        raise InputError(f"the study '{what}' measured nothing yet", hint="another --prior, or leave it out")
    return study_record(study)


def told_answers(named: Sequence[str], prior: Sequence[Profile], replay: Path | None) -> tuple[str, ...]:
    """A sentence for each of the records that holds the very profile that is replayed."""
    if replay is None or not prior:
        return ()
    table = read_profile(replay)
    return tuple(
        f"--prior {what} holds the very profile that is replayed: the answer is known beforehand, and the result is no "
        "test of anything"
        for what, record in zip(named, prior, strict=True)
        if gives_away(record, table)
    )


def earlier_study_note(study: Study, location: str) -> tuple[str, ...]:
    """A sentence that names the record `study` could have learnt from, if the store at `location` holds one."""
    with closing(open_store(location)) as store:
        found = earlier_study(store, study)
    if found is None:
        return ()
    workload = found.specification["workload"]
    other = "" if workload == study.specification["workload"] else f", though of another workload ({workload['spec']}),"
    return (f"an earlier study of this device{other} can be learned from: --prior {shlex.quote(found.name)}",)


def earlier_study(store: Store, study: Study) -> StoredStudy | None:
    """The finished study of the same device, with another question, from which `study` could learn most; or None.

    That is one of the same workload, then one with the same held fixed, then the longest, then the newest.
    """
    wanted = study.specification

    def worth(stored: StoredStudy) -> tuple[bool, bool, int]:
        same = stored.specification
        return same["workload"] == wanted["workload"], same["held_fixed"] == wanted["held_fixed"], len(stored.trials)

    names = reversed(store.names()[-_LOOK_BACK:])
    stored = [found for name in names if name != study.name and (found := store.load(name)) is not None]
    others = [found for found in stored if _is_finished(found) and _is_another_question(found.specification, wanted)]
    for found in sorted(others, key=worth, reverse=True):  # equals stay the newest first
        try:
            check_prior(study.info, [prior_record(found.name, store)])
        except InputError:  # of other knobs, or too short: of no use here
            continue
        return found
    return None


def _is_finished(stored: StoredStudy) -> bool:
    ended = ended_document(stored)
    return ended is not None and ended["stopped"] in _FINISHED


def _is_another_question(found: Specification, wanted: Specification) -> bool:
    """Whether it is of the same device, and not what --fresh set aside."""
    if any(found[key] != wanted[key] for key in ("device", "source")):
        return False
    return any(found[key] != wanted[key] for key in ("workload", "goal", "cap"))
