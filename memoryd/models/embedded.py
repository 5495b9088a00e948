"""How does the embedded model turn one text into one unit vector?

Only the child process imports this file. One text a forward: padding costs more than batching gains on a CPU, and a
vector then never depends on its neighbours.
"""

from __future__ import annotations

import numpy
import onnxruntime
from tokenizers import Tokenizer

from memoryd.errors import ModelFilesWrong
from memoryd.models.identity import EMBEDDED, ENGINE_MAJOR, ModelFiles, verify


class EmbeddedModel:
    """all-MiniLM-L6-v2, int8: mean of the token vectors, L2-normalised. One thread at a time may use it."""

    def __init__(self, session: onnxruntime.InferenceSession, tokenizer: Tokenizer) -> None:
        self._session = session
        self._tokenizer = tokenizer
        self._inputs = [entry.name for entry in session.get_inputs()]

    @classmethod
    def load(cls, files: ModelFiles, *, threads: int) -> EmbeddedModel:
        """Check both hashes, then load. Raises ModelFilesWrong naming the file."""
        verify(files)
        if onnxruntime.__version__.split(".")[0] != str(ENGINE_MAJOR):
            raise ModelFilesWrong(f"onnxruntime {onnxruntime.__version__} is installed, not {ENGINE_MAJOR}.x.")
        onnxruntime.disable_telemetry_events()
        tokenizer = Tokenizer.from_file(str(files.tokenizer))
        tokenizer.no_padding()
        tokenizer.enable_truncation(max_length=EMBEDDED.max_tokens)
        session = onnxruntime.InferenceSession(str(files.weights), _options(threads), ["CPUExecutionProvider"])
        return cls(session, tokenizer)

    def embed(self, text: str) -> bytes:
        """The vector of one text as little-endian float32; what is beyond the model's limits does not count."""
        encoded = self._tokenizer.encode(text[: EMBEDDED.max_characters])  # it would read a megabyte to keep 256 tokens
        mask = numpy.array([encoded.attention_mask], dtype=numpy.int64)
        values = {
            "input_ids": numpy.array([encoded.ids], dtype=numpy.int64),
            "attention_mask": mask,
            "token_type_ids": numpy.array([encoded.type_ids], dtype=numpy.int64),
        }
        (hidden,) = self._session.run(None, {name: values[name] for name in self._inputs})
        weight = mask[0].astype(numpy.float32)
        mean = weight @ hidden[0] / weight.sum()
        unit = mean / numpy.linalg.norm(mean)
        return bytes(unit.astype("<f4").tobytes())


def _options(threads: int) -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    # The arena keeps its high-water mark for good and gained nothing in speed; prepacked weights double the speed of
    # short texts at no memory, so they stay on.
    options.enable_cpu_mem_arena = False
    options.enable_mem_pattern = False
    options.log_severity_level = 3
    return options
