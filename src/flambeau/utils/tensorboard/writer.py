"""Writes event files that TensorBoard reads."""

from __future__ import annotations

import itertools
import os
import socket
import threading
import time
import weakref
from typing import Any, Self

from flambeau.errors import ArgumentError, StateError
from flambeau.utils.tensorboard import plugins, summary
from flambeau.utils.tensorboard._records import double, integer, message, record

__all__ = ["FileWriter", "SummaryWriter"]
__dir__ = __all__.copy

_count = itertools.count()
_LACKS = ("add_onnx_graph",)


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
        self.log_dir: str = os.fspath(log_dir)
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
    """Logs what TensorBoard shows: numbers, texts, histograms, pictures, sounds, curves, points, graphs, hyperparameters.

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
        self.log_dir: str = os.fspath(log_dir)
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

    def _get_file_writer(self) -> FileWriter:
        return self.file_writer

    def _writer(self, folder: str) -> FileWriter:
        if folder not in self.all_writers:
            self.all_writers[folder] = FileWriter(folder, *self._options)
        return self.all_writers[folder]

    def __getattr__(self, name: str) -> Any:
        if name in _LACKS:
            raise AttributeError(
                f"SummaryWriter.{name}: not supported; show a model with add_graph(), "
                'see the page "Differences from PyTorch" (docs/differences.md)'
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
        self,
        main_tag: str,
        tag_scalar_dict: dict[str, Any],
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Logs several numbers in one chart; each has an event file in its own folder.

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

    def add_image_with_boxes(
        self,
        tag: str,
        img_tensor: Any,
        box_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        rescale: float = 1,
        dataformats: str = "CHW",
        labels: list[str] | None = None,
    ) -> None:
        """Logs a picture with boxes drawn on it.

        Args:
            tag, img_tensor, global_step, walltime, dataformats: as in add_image().
            box_tensor: left, top, right and bottom of each box in pixels, shape (count, 4).
            rescale: factor by which the picture is made larger or smaller.
            labels: a text for each box (needs the package Pillow); one text for a single box.
        """
        labels = [labels] if isinstance(labels, str) else labels
        array = plugins.boxed(img_tensor, box_tensor, labels, dataformats)
        self.file_writer.add_summary(summary.image(tag, array, "HWC", rescale), global_step, walltime)

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
        hparam_domain_discrete: dict[str, list[Any]] | None = None,
        run_name: str | None = None,
        global_step: int | None = None,
    ) -> None:
        """Logs the hyperparameters of a run with its results, in its own folder.

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

    def add_graph(
        self, model: Any, input_to_model: Any = None, verbose: bool = False, use_strict_trace: bool = True
    ) -> None:
        """Logs the layers of a model and how results flow between them; runs it once.

        Args:
            model: the module.
            input_to_model: a tensor, or a tuple of arguments.
            verbose: also print the nodes.
            use_strict_trace: for PyTorch's sake: nothing is traced, so nothing can be too strict.
        """
        from flambeau.utils.tensorboard._graph import graph

        if input_to_model is None:
            raise ArgumentError("add_graph: needs input_to_model, on which the model is run")
        was_training = model.training
        model.eval()  # tracing must not change it
        try:
            data, nodes = graph(model, input_to_model)
        finally:
            model.train(was_training)
        if verbose:
            print("\n".join(nodes))
        self.file_writer.add_event(message(4, data))

    def add_pr_curve(
        self, tag: str, labels: Any, predictions: Any, global_step: int | None = None, num_thresholds: int = 127,
        weights: Any = None, walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Logs precision over recall, from true labels (0 or 1) and predicted probabilities."""
        data = plugins.pr_curve(tag, labels, predictions, num_thresholds, weights)
        self.file_writer.add_summary(data, global_step, walltime)

    def add_pr_curve_raw(
        self, tag: str, true_positive_counts: Any, false_positive_counts: Any, true_negative_counts: Any,
        false_negative_counts: Any, precision: Any, recall: Any, global_step: int | None = None,
        num_thresholds: int = 127, weights: Any = None, walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Logs precision over recall that has been counted already, one number per threshold; the weights are in it.

        How many thresholds there are is seen from the rows, whatever num_thresholds says.
        """
        counts = (true_positive_counts, false_positive_counts, true_negative_counts, false_negative_counts)
        data = plugins.pr_curve_raw(tag, *counts, precision, recall)
        self.file_writer.add_summary(data, global_step, walltime)

    def add_audio(
        self,
        tag: str,
        snd_tensor: Any,
        global_step: int | None = None,
        sample_rate: int = 44100,
        walltime: float | None = None,
    ) -> None:
        """Logs a sound, shape (1, length), numbers from -1 to 1."""
        self.file_writer.add_summary(plugins.audio(tag, snd_tensor, sample_rate), global_step, walltime)

    def add_video(
        self, tag: str, vid_tensor: Any, global_step: int | None = None, fps: float = 4, walltime: float | None = None
    ) -> None:
        """Logs films, shape (N, T, C, H, W), as an animated picture (needs the package Pillow)."""
        self.file_writer.add_summary(plugins.video(tag, vid_tensor, fps), global_step, walltime)

    def add_mesh(
        self,
        tag: str,
        vertices: Any,
        colors: Any = None,
        faces: Any = None,
        config_dict: dict[str, Any] | None = None,
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Logs clouds of points or surfaces in space.

        Args:
            tag: its name.
            vertices: their places, shape (batch, count, 3).
            colors: red, green and blue of each vertex from 0 to 255, shape (batch, count, 3).
            faces: the three vertices of each triangle, shape (batch, triangles, 3).
            config_dict: settings of the scene (camera, lights, material) for the page.
            global_step, walltime: as in add_scalar().
        """
        self.file_writer.add_summary(plugins.mesh(tag, vertices, colors, faces, config_dict), global_step, walltime)

    def add_tensor(self, tag: str, tensor: Any, global_step: int | None = None, walltime: float | None = None) -> None:
        """Logs a tensor as it is."""
        self.file_writer.add_summary(plugins.tensor(tag, tensor), global_step, walltime)

    def add_custom_scalars(self, layout: dict[str, dict[str, list[Any]]]) -> None:
        """Arranges scalars in charts.

        Args:
            layout: {category: {title: ["Multiline", tags] or ["Margin", [value, lower, upper]]}}.
        """
        self.file_writer.add_summary(plugins.custom_scalars(layout))

    def add_custom_scalars_multilinechart(self, tags: list[str], category: str = "default", title: str = "untitled") -> None:
        """Shows several scalars in one chart."""
        self.add_custom_scalars({category: {title: ["Multiline", tags]}})

    def add_custom_scalars_marginchart(self, tags: list[str], category: str = "default", title: str = "untitled") -> None:
        """Shows a scalar between two others: [value, lower, upper]."""
        self.add_custom_scalars({category: {title: ["Margin", tags]}})

    def add_embedding(
        self, mat: Any, metadata: Any = None, label_img: Any = None, global_step: int | None = None,
        tag: str = "default", metadata_header: list[str] | None = None,
    ) -> None:  # fmt: skip
        """Logs points for the projector.

        Args:
            mat: a matrix with a point per row.
            metadata: a label per point; a list of labels with metadata_header.
            label_img: a picture per point, shape (N, C, H, W).
            global_step: part of the files' place.
            tag: name of the points.
            metadata_header: names of the labels.
        """
        plugins.embedding(self.log_dir, mat, metadata, label_img, global_step, tag, metadata_header)

    def flush(self) -> None:
        """Writes all events that are waiting to disk."""
        for writer in self.all_writers.values():
            writer.flush()

    def close(self) -> None:
        """Closes the event files; what is logged after that goes into new ones."""
        for writer in self.all_writers.values():
            writer.close()
        self.all_writers.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
