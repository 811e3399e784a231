"""Events, statistics over windows, and their handlers."""

import datetime
import threading

import pytest

import flambeau as fb
from flambeau.monitor import Aggregation, Event, Stat

HOUR = datetime.timedelta(hours=1)


@pytest.fixture
def events():
    seen = []
    handle = fb.monitor.register_event_handler(seen.append)
    yield seen
    fb.monitor.unregister_event_handler(handle)


def test_handlers_get_events_until_they_are_unregistered(events):
    event = Event("epoch", datetime.datetime.now(), {"loss": 0.5, "text": "a", "n": 3})
    handle = fb.monitor.register_event_handler(events.append)
    fb.monitor.log_event(event)
    fb.monitor.unregister_event_handler(handle)
    fb.monitor.unregister_event_handler(handle)
    fb.monitor.log_event(event)
    assert events == [event] * 3


def test_every_aggregation_of_a_full_window(events):
    stat = Stat("s", list(Aggregation), HOUR, 3)
    assert stat.name == "s" and set(stat.get().values()) == {0.0}
    for value in (4, 1, 7):
        stat.add(value)
    expected = {"value": 7, "mean": 4, "count": 3, "sum": 12, "max": 7, "min": 1}
    assert len(events) == 1 and events[0].name == fb.monitor.STAT_EVENT
    assert events[0].data == {f"s.{key}": value for key, value in expected.items()}
    assert {key.value: value for key, value in stat.get().items()} == expected
    stat.add(100)  # the window has what it may have
    assert stat.count == 0 and len(events) == 1


def test_a_window_ends_with_the_first_value_after_it(events):
    stat = Stat("s", [Aggregation.COUNT], datetime.timedelta(microseconds=1))
    stat.add(1)
    while not events:
        stat.add(1)
    assert events[0].data["s.count"] >= 1


def test_what_is_left_is_logged_at_the_end(events):
    stat = Stat("s", [Aggregation.SUM], HOUR)
    stat.add(2)
    assert stat.count == 1 and not events
    del stat
    assert events[0].data == {"s.sum": 2}


def test_threads_add_values_together(events):
    stat = Stat("s", [Aggregation.SUM], HOUR, 4000)
    threads = [threading.Thread(target=lambda: [stat.add(1) for _ in range(1000)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [event.data for event in events] == [{"s.sum": 4000}]


def test_scalars_for_tensorboard():
    class Writer:
        written = []

        def add_scalar(self, tag, value, walltime):
            self.written.append((tag, value, walltime))

    handler = fb.monitor.TensorboardEventHandler(Writer())
    when = datetime.datetime(2026, 1, 1)
    handler(Event(fb.monitor.STAT_EVENT, when, {"a.sum": 2.0}))
    assert Writer.written == [("a.sum", 2.0, when.timestamp())]
    with pytest.warns(UserWarning, match="not of a Stat"):
        handler(Event("other", when, {}))


def test_wrong_arguments():
    with pytest.raises(ValueError, match="window_size must be a positive timedelta"):
        Stat("s", [Aggregation.SUM], datetime.timedelta(0))
    with pytest.raises(ValueError, match="max_samples must be 1 or more"):
        Stat("s", [Aggregation.SUM], HOUR, 0)
    with pytest.raises(ValueError, match="is not a valid Aggregation"):
        Stat("s", ["median"], HOUR)
    with pytest.raises(TypeError, match="callback must be callable"):
        fb.monitor.register_event_handler(3)
    with pytest.raises(TypeError, match="data must be texts, numbers or bools"):
        Event("e", datetime.datetime.now(), {"x": [1]})
