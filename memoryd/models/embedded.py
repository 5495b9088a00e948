"""How does the embedded model turn one text into one unit vector?

Only the child process imports this file. One text a forward: padding costs more than batching gains on a CPU, and a
vector then never depends on its neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy
import onnxruntime
from tokenizers import Tokenizer

from memoryd.errors import ModelFilesWrong
from memoryd.models.identity import EMBEDDED, ENGINE_MAJOR, ModelFiles, verify
from memoryd.models.maxsim import Matrix, pack
from memoryd.records import Encoded


class EmbeddedModel:
    """all-MiniLM-L6-v2, int8: mean of the token vectors, L2-normalised. One thread at a time may use it."""

    fingerprint = EMBEDDED.fingerprint
    dims = EMBEDDED.dims
    batch_tokens = 0
    device = "cpu"

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
        return self.encode([text], tokens=False)[0].dense

    def encode(self, texts: Sequence[str], *, tokens: bool) -> list[Encoded]:
        """One text after the other, with unit vectors of its tokens where asked for (not of the two that frame it)."""
        found = []
        for text in texts:
            hidden = self._hidden(text)
            found.append(Encoded(_pooled(hidden), b"", pack(hidden[1:-1]) if tokens else b""))
        return found

    def _hidden(self, text: str) -> Matrix:
        encoded = self._tokenizer.encode(text[: EMBEDDED.max_characters])  # it would read a megabyte to keep 256 tokens
        values = {
            "input_ids": numpy.array([encoded.ids], dtype=numpy.int64),
            "attention_mask": numpy.array([encoded.attention_mask], dtype=numpy.int64),
            "token_type_ids": numpy.array([encoded.type_ids], dtype=numpy.int64),
        }
        (hidden,) = self._session.run(None, {name: values[name] for name in self._inputs})
        return numpy.asarray(hidden[0], dtype=numpy.float32)


def _pooled(hidden: Matrix) -> bytes:
    weight = numpy.ones(len(hidden), dtype=numpy.float32)  # one text is never padded
    mean = weight @ hidden / weight.sum()
    return bytes((mean / numpy.linalg.norm(mean)).astype("<f4").tobytes())


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
