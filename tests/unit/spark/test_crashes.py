"""Nothing is lost and nothing comes twice, at whichever step of a batch a thread ends and whatever comes next."""

from __future__ import annotations

import itertools
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from penstock.runtime import task as task_module
from penstock.spark.worker import step_sizes
from tests.unit.spark.crash_cases import CASES, PARTITIONS, Case
from tests.unit.spark.crash_world import Brokers, Crash, Form, Instance, Step
from tests.unit.spark.vector_world import LEVEL, MIDST, UNEVEN, commit_vectors

pytestmark = pytest.mark.sampled(3)

REPARTITIONED = ["words", "words counted", "join", "windows"]
THREADS = (0, 1)
STAYS = [name for name in CASES if name not in REPARTITIONED]
CASES_IN_FORMS = [*((name, Form.BLOCKS) for name in STAYS), *itertools.product(REPARTITIONED, Form)]
"""Each case with the ways in which its records pass a repartition."""


class Application:
    """A case, its brokers, and the instances of it that there have been."""

    def __init__(self, case: Case, folder: Path, form: Form = Form.BLOCKS) -> None:
        self.case, self.folder, self.form = case, folder, form
        self.brokers = Brokers.of(case.topology(), PARTITIONS, *case.outputs)
        self.instances: list[Instance] = []

    def made(self, process: str = "a") -> Instance:
        """An instance that is not open."""
        made = Instance(self.case.topology(), self.brokers, self.folder, process, self.case.config, self.form)
        self.instances.append(made)
        return made

    def start(self, process: str = "a", form: Form | None = None) -> Instance:
        """Another run; the one before is dead."""
        for instance in self.instances:
            instance.die()
        if form is not None:
            self.brokers.time_out()  # a thread that is not started again leaves its transaction to the brokers
        self.form = form or self.form
        self.instance = self.made(process)
        self.instance.open()
        return self.instance

    def turn(self, at: Callable[[int, Step], None] = lambda thread, step: None, **how: Any) -> int:
        """A batch of each thread, in which some tasks wait for what is not fetched."""
        return self.instance.turn(at, up_to=dict.fromkeys(self.case.waits, 2), **how)

    def results(self) -> dict[str, Any]:
        """All that was committed, as it is compared."""
        return {topic: compared(self.brokers.values(topic)) for topic, compared in self.case.outputs.items()}


def crash_at(thread: int, step: Step, times: int = 1) -> Callable[[int, Step], None]:
    """What ends a thread at a step."""
    left = itertools.count(times - 1, -1)

    def reached(reached_thread: int, reached_step: Step) -> None:
        if (reached_thread, reached_step) == (thread, step) and next(left) == 0:
            raise Crash(step)

    return reached


@cache
def undisturbed(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Results and stores of a run in which nothing happens."""
    with tempfile.TemporaryDirectory() as folder:
        application = Application(CASES[name], Path(folder), Form.RECORDS)
        application.start()
        for part in range(3):
            application.case.feed(application.brokers, part)
            application.instance.run()
        found = application.results(), application.instance.stores()
        application.instance.die()
        return found


@pytest.fixture
def begin(tmp_path: Path) -> Iterator[Callable[..., Application]]:
    made: list[Application] = []

    def start(name: str, form: Form = Form.BLOCKS) -> Application:
        """A first part is processed, a second one is there."""
        application = Application(CASES[name], tmp_path, form)
        made.append(application)
        application.start()
        application.case.feed(application.brokers, 0)
        application.turn()
        application.case.feed(application.brokers, 1)
        return application

    yield start
    for application in made:
        for instance in application.instances:
            instance.die()


def finish(name: str, application: Application, max_records: int = 1_000_000) -> None:
    """The third part comes; then everything is as if nothing had happened, also for one who knows no more than Kafka does."""
    application.case.feed(application.brokers, 2)
    end(name, application, max_records)


def end(name: str, application: Application, max_records: int = 1_000_000) -> None:
    """All three parts are there."""
    application.instance.run(max_records)
    expected, stores = undisturbed(name)
    assert application.results() == expected
    here = application.instance.stores()
    if application.case.same_stores:
        assert here == stores
    fresh = application.start("fresh")
    fresh.run()
    assert fresh.stores() == here
    assert not application.brokers.open
    assert application.results() == expected


def test_should_give_results_that_tell_something() -> None:
    for name, case in CASES.items():
        results, _ = undisturbed(name)
        assert results.keys() == case.outputs.keys()
        assert all(results.values()), name


def test_should_count_every_word_once_if_nothing_happens() -> None:
    lines = [row[2] for part in range(3) for row in CASES["words"].inputs(part)["in"]]
    words = Counter(word for line in lines if line.startswith(b'"') for word in line.strip(b'"').split())
    results, _ = undisturbed("words")
    assert {key: [int.from_bytes(value) for value in values] for key, values in results["out"].items()} == {
        word: list(range(1, count + 1)) for word, count in words.items()
    }
    assert len(results["dead"]) == 3


@pytest.mark.parametrize("thread", THREADS)
@pytest.mark.parametrize("step", Step)
@pytest.mark.parametrize(("name", "form"), CASES_IN_FORMS)
def test_should_go_on_where_a_thread_ended(
    begin: Callable[..., Application], name: str, form: Form, step: Step, thread: int
) -> None:
    """Its stores are there, and are behind or not. In memory the second one ends a batch later."""
    application = begin(name, form)
    if thread not in form.threads:
        application.turn(max_records=3)
    application.turn(crash_at(thread % len(form.threads), step))
    finish(name, application)


@pytest.mark.parametrize("times", [2, 5])
@pytest.mark.parametrize(("name", "form"), CASES_IN_FORMS)
def test_should_go_on_where_a_thread_ended_between_two_records_of_a_transaction(
    begin: Callable[..., Application], name: str, form: Form, times: int
) -> None:
    application = begin(name, form)
    application.turn(crash_at(0, Step.PRODUCED_IN_PART, times))
    finish(name, application)


@pytest.mark.parametrize("step", Step)
@pytest.mark.parametrize(("name", "form"), CASES_IN_FORMS)
def test_should_go_on_where_a_thread_ended_that_had_no_time_for_all_records(
    begin: Callable[..., Application], name: str, form: Form, step: Step, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task has the time of one record in a batch: the others wait in its queue, and are read again by whoever goes on."""
    monkeypatch.setattr(task_module, "monotonic", lambda: 1e300)
    application = begin(name, form)
    application.turn()
    application.turn(crash_at(0, step))
    finish(name, application)


@pytest.mark.parametrize("step", Step)
@pytest.mark.parametrize(("name", "form"), CASES_IN_FORMS)
def test_should_go_on_elsewhere_without_any_stores(begin: Callable[..., Application], name: str, form: Form, step: Step) -> None:
    """Another process takes over, which cannot end the transaction that was left open: it waits."""
    application = begin(name, form)
    application.turn(crash_at(0, step))
    application.instance.die()
    taker = take_over(application)
    hides = any(p.topic.endswith("-changelog") for t in application.brokers.open.values() for p in t.partitions)
    assert taker.restore() is not hides
    application.brokers.time_out()
    assert taker.restore()
    finish(name, application)


def take_over(application: Application) -> Instance:
    """Another process opens everything, as far as it can while transactions are open."""
    application.brokers.generation += 1
    if any(transaction.offsets for transaction in application.brokers.open.values()):
        application.brokers.time_out()  # nobody is told offsets that are about to change: it asks until that is decided
    return application.start("b")


@pytest.mark.parametrize("step", [Step.PRODUCED, Step.COMMITTED, Step.STORE_WRITTEN])
@pytest.mark.parametrize("name", [name for name in CASES if name != "stateless"])
def test_should_restore_on_where_a_restore_died(
    begin: Callable[..., Application], monkeypatch: pytest.MonkeyPatch, name: str, step: Step
) -> None:
    """Each attempt reads one batch more than the one before it, from where that had come to, or from the start."""
    monkeypatch.setattr(step_sizes, "RESTORE", 2)
    application = begin(name)
    application.turn(crash_at(1, step))
    application.instance.die()
    application.brokers.time_out()
    for attempt in itertools.count():
        application.brokers.on_fetch = crash_after(1 + attempt)
        taker = application.start("b")
        try:
            while not taker.restore():
                pass
            break
        except Crash:
            assert attempt < 100
    assert attempt > 1
    application.brokers.on_fetch = lambda: None
    finish(name, application)


def crash_after(fetches: int) -> Callable[[], None]:
    """What ends whoever reads more than so often."""
    left = itertools.count(fetches, -1)

    def fetched() -> None:
        if next(left) <= 0:
            raise Crash("between two batches")

    return fetched


@pytest.mark.parametrize("step", Step)
@pytest.mark.parametrize(("name", "form"), CASES_IN_FORMS)
def test_should_go_on_after_another_has_had_it_for_a_generation(
    begin: Callable[..., Application], name: str, form: Form, step: Step
) -> None:
    """What comes back finds its old stores, from before the other one went on; both die on the way."""
    application = begin(name, form)
    application.turn(crash_at(0, step))
    application.instance.die()
    application.brokers.time_out()
    application.brokers.generation += 1
    application.start("b")
    application.turn(crash_at(form.threads[-1], step), max_records=5)
    application.instance.die()
    application.brokers.time_out()
    application.brokers.generation += 1
    application.start("a")
    finish(name, application)


@pytest.mark.parametrize("step", [Step.BEGUN, Step.PRODUCED_IN_PART, Step.PRODUCED])
@pytest.mark.parametrize(("name", "form"), [entry for entry in CASES_IN_FORMS if entry[0] in ("count", "words", "join")])
def test_should_refuse_a_thread_that_comes_too_late_for_its_generation(
    begin: Callable[..., Application], name: str, form: Form, step: Step
) -> None:
    """The other one is opened while the batch is under way, and is right when that has been refused."""
    application = begin(name, form)
    late = application.instance
    takers: list[Instance] = []

    def meanwhile(thread: int, reached: Step) -> None:
        if reached == step and not takers:
            application.brokers.generation += 1
            taker = application.made("b")
            takers.append(taker)
            taker.open()
            taker.restore()

    application.turn(meanwhile)
    assert len(late.threads) < len(form.threads)  # who had not committed by then was refused
    late.die()
    [application.instance] = takers
    while not application.instance.restore():
        pass
    finish(name, application)


@pytest.mark.parametrize("step", Step)
@pytest.mark.parametrize(("first", "then"), [(a, b) for a, b in itertools.product(Form, Form) if a is not b])
@pytest.mark.parametrize("name", REPARTITIONED)
def test_should_go_on_in_another_form_where_a_thread_ended(
    begin: Callable[..., Application], name: str, first: Form, then: Form, step: Step
) -> None:
    """Threads are added or taken away, or `repartition.format` is another one: what is left in the topic is read as it is."""
    application = begin(name, first)
    application.turn(crash_at(list(Step).index(step) % len(first.threads), step), max_records=5)
    application.start(form=then)
    finish(name, application)


@pytest.mark.parametrize("step", Step)
@pytest.mark.parametrize("name", REPARTITIONED)
def test_should_change_the_form_again_and_again_while_threads_end(
    begin: Callable[..., Application], name: str, step: Step
) -> None:
    application = begin(name, Form.MEMORY)
    forms = itertools.cycle(Form)
    for turn in range(9):
        form = application.form
        application.turn(crash_at(turn % len(form.threads), step), max_records=2 + turn % 3)
        if turn % 3 == 2:
            application.start(form=next(forms))
        elif not application.instance.is_open:
            application.instance.open()
    finish(name, application)


@pytest.mark.parametrize("step", Step)
@pytest.mark.parametrize("form", Form)
@pytest.mark.parametrize("name", REPARTITIONED)
def test_should_go_on_where_threads_end_again_and_again(
    begin: Callable[..., Application], name: str, form: Form, step: Step
) -> None:
    """Also while tasks wait in the middle of a block."""
    application = begin(name, form)
    for turn in range(8):
        if not application.instance.is_open:
            application.instance.open()
        application.turn(crash_at(turn % len(form.threads), step), max_records=2 + turn % 3)
    finish(name, application, max_records=3)


POSITIONS = {"even": LEVEL, "uneven": UNEVEN, "in the midst of a record": MIDST}


@pytest.fixture
def shuffled(tmp_path: Path) -> Iterator[Callable[..., Application]]:
    made: list[Application] = []

    def start(name: str, form: Form, positions: str) -> Application:
        """Two parts are there; an earlier release has consumed some of the first and has left vectors."""
        application = Application(CASES[name], tmp_path, form)
        made.append(application)
        for part in range(2):
            application.case.feed(application.brokers, part)
        commit_vectors(application.case, application.brokers, tmp_path, POSITIONS[positions])
        return application

    yield start
    for application in made:
        for instance in application.instances:
            instance.die()


@pytest.mark.parametrize("step", Step)
@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("form", Form)
@pytest.mark.parametrize("name", REPARTITIONED)
def test_should_go_on_after_an_upgrade_from_vectors_where_threads_end(
    shuffled: Callable[..., Application], name: str, form: Form, positions: str, step: Step
) -> None:
    application = shuffled(name, form, positions)
    application.start()
    for turn in range(3):
        application.turn(crash_at(turn % len(form.threads), step), max_records=2 + turn)
        if not application.instance.is_open:
            application.instance.open()
    finish(name, application)


@pytest.mark.parametrize("committed", [False, True])
@pytest.mark.parametrize("form", Form)
@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("name", REPARTITIONED)
def test_should_upgrade_by_one_commit(
    shuffled: Callable[..., Application], name: str, positions: str, form: Form, committed: bool
) -> None:
    """A leader that ends before it has changed nothing; one that ends after it has changed everything."""
    application = shuffled(name, form, positions)
    before = dict(application.brokers.offsets)
    if committed:
        application.made().upgrade()
        assert application.brokers.offsets != before
    application.brokers.generation += 1
    application.start("b")
    finish(name, application)


def _taken_back(name: str, form: Form) -> Any:
    reason = "handed over records move no offset, so a store does not know that it is ahead of what is committed"
    marks = [pytest.mark.xfail(reason=reason, strict=True)] if form is Form.MEMORY and name != "join" else []
    return pytest.param(name, form, marks=marks)


@pytest.mark.parametrize(("name", "form"), [_taken_back(*entry) for entry in CASES_IN_FORMS])
def test_should_not_go_on_with_stores_that_have_what_was_taken_back(
    name: str, form: Form, begin: Callable[..., Application]
) -> None:
    """Brokers say that a transaction is committed, and abort it with the next one: stores have it, and nobody else."""
    application = begin(name, form)
    application.instance.run()
    application.case.feed(application.brokers, 2)
    application.brokers.loses_markers = True
    application.turn()
    application.brokers.loses_markers = False
    application.instance.die()
    application.brokers.abort_unmarked()
    application.start()
    end(name, application)
