"""Writes event files that TensorBoard reads."""

from __future__ import annotations

import itertools
import os
import socket
import threading
import time
import weakref
from typing import Any

from flambeau.errors import StateError
from flambeau.utils.tensorboard import summary
from flambeau.utils.tensorboard._records import double, integer, message, record

__all__ = ["FileWriter", "SummaryWriter"]

_count = itertools.count()
_LACKS = (
    "add_audio", "add_custom_scalars", "add_custom_scalars_marginchart", "add_custom_scalars_multilinechart", "add_embedding",
    "add_graph", "add_image_with_boxes", "add_mesh", "add_onnx_graph", "add_pr_curve", "add_pr_curve_raw", "add_tensor", "add_video",
)  # fmt: skip


class FileWriter:
    """One event file in a folder.

    Args:
        log_dir: the folder; it is made if need be.
        max_queue: events that may wait before they are written to disk.
        flush_secs: seconds they may wait.
        filename_suffix: end of the file's name.

    Example:
        >>> import tempfile
        >>> writer = fb.utils.tensorboard.FileWriter(tempfile.mkdtemp())
        >>> writer.close()
    """

    def __init__(self, log_dir: Any, max_queue: int = 10, flush_secs: float = 120, filename_suffix: str = "") -> None:
        self.log_dir = os.fspath(log_dir)
        os.makedirs(self.log_dir, exist_ok=True)
        name = f"events.out.tfevents.{int(time.time()):010d}.{socket.gethostname()}.{os.getpid()}.{next(_count)}{filename_suffix}"
        self.path = os.path.join(self.log_dir, name)
        self.max_queue, self.flush_secs = max_queue, flush_secs
        self._file = open(self.path, "wb")
        # A writer that is dropped without close() must not lose its last events.
        self._finalizer = weakref.finalize(self, self._file.close)
        self._lock = threading.Lock()
        self._waiting, self._flushed = 0, time.monotonic()
        self.add_event(message(3, "brain.Event:2"))
        self.flush()

    def get_logdir(self) -> str:
        """The folder."""
        return self.log_dir

    def add_event(self, what: bytes, step: int | None = None, walltime: float | None = None) -> None:
        """Writes an event; `what` is the encoded field with its content."""
        head = double(1, time.time() if walltime is None else walltime)
        head += b"" if step is None else integer(2, int(step))
        with self._lock:
            if self._file.closed:
                raise StateError(f"SummaryWriter: the file {self.path} has been closed")
            self._file.write(record(head + what))
            self._waiting += 1
            if self._waiting > self.max_queue or time.monotonic() - self._flushed > self.flush_secs:
                self._flush()

    def add_summary(self, data: bytes, global_step: int | None = None, walltime: float | None = None) -> None:
        """Writes an event with a summary."""
        self.add_event(message(5, data), global_step, walltime)

    def _flush(self) -> None:
        self._file.flush()
        self._waiting, self._flushed = 0, time.monotonic()

    def flush(self) -> None:
        """Writes what is waiting to disk."""
        with self._lock:
            if not self._file.closed:
                self._flush()

    def close(self) -> None:
        """Writes what is waiting and closes the file; a second call does nothing."""
        with self._lock:
            self._finalizer()


class SummaryWriter:
    """Logs what TensorBoard shows: numbers, texts, histograms, pictures, hyperparameters.

    Args:
        log_dir: the folder; `runs/<date>_<host><comment>` if not given.
        comment: end of the default folder's name.
        purge_step: TensorBoard forgets events of an earlier, crashed run from this step on.
        max_queue, flush_secs: how many events, and how long, may wait before they are on disk.
        filename_suffix: end of the file's name.

    Example:
        >>> import tempfile
        >>> with fb.utils.tensorboard.SummaryWriter(tempfile.mkdtemp()) as writer:
        ...     for step in range(3):
        ...         writer.add_scalar("loss", 1.0 / (step + 1), step)
    """

    def __init__(
        self,
        log_dir: Any = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: float = 120,
        filename_suffix: str = "",
    ) -> None:
        if not log_dir:
            log_dir = os.path.join("runs", time.strftime("%b%d_%H-%M-%S") + f"_{socket.gethostname()}{comment}")
        self.log_dir = os.fspath(log_dir)
        self._options = (max_queue, flush_secs, filename_suffix)
        # One for the folder itself, one for each of add_scalars, by folder.
        self.all_writers: dict[str, FileWriter] = {}
        opened = self.file_writer
        if purge_step is not None:
            opened.add_event(message(7, integer(1, 1)), purge_step)

    @property
    def file_writer(self) -> FileWriter:
        """The event file in the folder itself; after close() a new one."""
        return self._writer(self.log_dir)

    def _writer(self, folder: str) -> FileWriter:
        if folder not in self.all_writers:
            self.all_writers[folder] = FileWriter(folder, *self._options)
        return self.all_writers[folder]

    def __getattr__(self, name: str) -> Any:
        if name in _LACKS:
            raise AttributeError(
                f"SummaryWriter.{name}: not supported; there are add_scalar(s), add_text, add_histogram, add_image(s), "
                'add_figure and add_hparams, see the page "Differences from PyTorch" (docs/differences.md)'
            )
        raise AttributeError(f"'SummaryWriter' object has no attribute '{name}'")

    def get_logdir(self) -> str:
        """The folder of the event file."""
        return self.log_dir

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """Logs a number.

        Args:
            tag: its name; parts before slashes make groups.
            scalar_value: a number or a tensor with one element.
            global_step: the step it belongs to.
            walltime: seconds since the epoch; now if not given.
            new_style: write it as a tensor, which TensorBoard loads faster.
            double_precision: with new_style, keep 64 bits.
        """
        data = summary.scalar(tag, scalar_value, new_style, double_precision)
        self.file_writer.add_summary(data, global_step, walltime)

    def add_scalars(
        self, main_tag: str, tag_scalar_dict: dict[str, Any], global_step: int | None = None, walltime: float | None = None
    ) -> None:
        """Logs several numbers that belong in one chart; each has an event file in a folder of its own.

        Args:
            main_tag: name of the chart.
            tag_scalar_dict: the numbers by name.
            global_step, walltime: as in add_scalar().
        """
        walltime = time.time() if walltime is None else walltime
        for tag, value in tag_scalar_dict.items():
            folder = os.path.join(self.log_dir, f"{main_tag.replace('/', '_')}_{tag}")
            self._writer(folder).add_summary(summary.scalar(main_tag, value), global_step, walltime)

    def add_text(self, tag: str, text_string: str, global_step: int | None = None, walltime: float | None = None) -> None:
        """Logs a text, which TensorBoard shows as Markdown."""
        self.file_writer.add_summary(summary.text(tag, text_string), global_step, walltime)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: int | None = None,
        bins: Any = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """Logs the distribution of values.

        Args:
            tag: its name.
            values: tensor or array of any shape.
            global_step, walltime: as in add_scalar().
            bins: "tensorflow" for edges that fit any scale; or what numpy.histogram takes.
            max_bins: at most so many buckets.
        """
        self.file_writer.add_summary(summary.histogram(tag, values, bins, max_bins), global_step, walltime)

    def add_histogram_raw(
        self,
        tag: str,
        min: float,
        max: float,
        num: float,
        sum: float,
        sum_squares: float,
        bucket_limits: Any,
        bucket_counts: Any,
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Logs a distribution that has been counted already: right edges of the buckets, values in each."""
        data = summary.histogram_raw(tag, min, max, num, sum, sum_squares, bucket_limits, bucket_counts)
        self.file_writer.add_summary(data, global_step, walltime)

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """Logs a picture: bytes, or other numbers from 0 to 1, in the order of the letters of `dataformats`."""
        self.file_writer.add_summary(summary.image(tag, img_tensor, dataformats), global_step, walltime)

    def add_images(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:
        """Logs a batch of pictures as one, eight in a row."""
        self.file_writer.add_summary(summary.image(tag, img_tensor, dataformats), global_step, walltime)

    def add_figure(
        self, tag: str, figure: Any, global_step: int | None = None, close: bool = True, walltime: float | None = None
    ) -> None:
        """Logs a figure of matplotlib, or a list of them, as a picture.

        Args:
            tag: its name.
            figure: the figure; those of a list must be of one size.
            global_step, walltime: as in add_scalar().
            close: close the figure afterwards.
        """
        import matplotlib.pyplot as plt
        import numpy as np
        from matplotlib.backends.backend_agg import FigureCanvasAgg

        pictures = []
        for one in figure if isinstance(figure, (list, tuple)) else [figure]:
            canvas = FigureCanvasAgg(one)
            canvas.draw()
            pictures.append(np.array(canvas.buffer_rgba())[..., :3])
            if close:
                plt.close(one)
        self.add_images(tag, np.stack(pictures), global_step, walltime, dataformats="NHWC")

    def add_hparams(
        self,
        hparam_dict: dict[str, Any],
        metric_dict: dict[str, Any],
        hparam_domain_discrete: dict[str, list] | None = None,
        run_name: str | None = None,
        global_step: int | None = None,
    ) -> None:
        """Logs the hyperparameters of a run with its results, in a folder of its own.

        Args:
            hparam_dict: hyperparameters by name: numbers, strings, bools.
            metric_dict: results by name.
            hparam_domain_discrete: what values a hyperparameter may have.
            run_name: name of the folder; the time if not given.
            global_step: the step of the results.
        """
        parts = summary.hparams(hparam_dict, metric_dict, hparam_domain_discrete)
        folder = os.path.join(self.log_dir, str(time.time()) if run_name is None else run_name)
        writer = FileWriter(folder, *self._options)
        for part in parts:
            writer.add_summary(part)
        for tag, value in metric_dict.items():
            writer.add_summary(summary.scalar(tag, value), global_step)
        writer.close()

    def flush(self) -> None:
        """Writes all events that are waiting to disk."""
        for writer in self.all_writers.values():
            writer.flush()

    def close(self) -> None:
        """Closes the event files; what is logged after that goes into new ones."""
        for writer in self.all_writers.values():
            writer.close()
        self.all_writers.clear()

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
