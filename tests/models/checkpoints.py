"""Checkpoints with random weights, of the tiny size for tests or of the real one for a benchmark."""

from __future__ import annotations

import json
import random
from pathlib import Path

TINY = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
REAL = {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096}
TINY_PIECES = 1000
REAL_PIECES = 250_002
SYLLABLES = [one + two for one in "bcdfghjklmnprstvwz" for two in ("a", "e", "i", "o", "u", "ai", "en", "or")]


def build(folder: Path, *, size: dict[str, int] | None = None, pieces: int = TINY_PIECES, seed: int = 7) -> Path:
    """A folder that looks like BGE-M3 in every file, with random numbers in it."""
    import torch
    from transformers import XLMRobertaConfig, XLMRobertaModel

    folder.mkdir(parents=True)
    tokenizer(folder, pieces)
    torch.manual_seed(seed)
    numbers = {**(size or TINY), "vocab_size": pieces, "max_position_embeddings": 1026 if size is None else 8194}
    config = XLMRobertaConfig(**numbers, pad_token_id=1, bos_token_id=0, eos_token_id=2, type_vocab_size=1)
    XLMRobertaModel(config, add_pooling_layer=True).save_pretrained(folder)
    for name, out in (("colbert_linear", config.hidden_size), ("sparse_linear", 1)):
        head = torch.nn.Linear(config.hidden_size, out)
        torch.nn.init.constant_(head.bias, 0.5)  # else half of the sparse weights would be none
        torch.save(head.state_dict(), folder / f"{name}.pt")
    return folder


def build_reranker(folder: Path) -> Path:
    """A tiny cross-encoder."""
    import torch
    from transformers import XLMRobertaConfig, XLMRobertaForSequenceClassification

    folder.mkdir(parents=True)
    tokenizer(folder, TINY_PIECES)
    torch.manual_seed(3)
    config = XLMRobertaConfig(
        **TINY, vocab_size=TINY_PIECES, max_position_embeddings=1026, num_labels=1, type_vocab_size=1
    )
    XLMRobertaForSequenceClassification(config).save_pretrained(folder)
    return folder


def tokenizer(folder: Path, pieces: int) -> None:
    """A Unigram tokenizer with XLM-R's special tokens; the tiny one is trained, a large vocabulary is made up."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers

    special = ["<s>", "<pad>", "</s>", "<unk>"]
    if pieces <= 5000:
        made = Tokenizer(models.Unigram())
    else:
        made = Tokenizer(models.Unigram(_vocabulary(special, pieces), unk_id=3))
    made.normalizer = normalizers.NFKC()
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    if pieces <= 5000:
        trainer = trainers.UnigramTrainer(vocab_size=pieces - 1, special_tokens=special, unk_token="<unk>")
        made.train_from_iterator(_corpus(), trainer)
    made.add_special_tokens(["<mask>"])
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    made.save(str(folder / "tokenizer.json"))
    told = {"bos_token": "<s>", "cls_token": "<s>", "eos_token": "</s>", "sep_token": "</s>", "unk_token": "<unk>"}
    told |= {"pad_token": "<pad>", "mask_token": "<mask>", "model_max_length": 8192}
    told |= {"tokenizer_class": "XLMRobertaTokenizer"}
    (folder / "tokenizer_config.json").write_text(json.dumps(told))


def _corpus() -> list[str]:
    draw = random.Random(1)
    words = ["".join(draw.choices(SYLLABLES, k=draw.randint(1, 4))) for _ in range(3000)]
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.,:;()_-/äöüéß日本語中文"
    return [" ".join(draw.choices(words, k=12)) for _ in range(400)] + [" ".join(letters)] * 20


def _vocabulary(special: list[str], pieces: int) -> list[tuple[str, float]]:
    draw = random.Random(1)
    found = dict.fromkeys([*special, "▁", *(f"▁{s}" for s in SYLLABLES), *SYLLABLES, *map(chr, range(33, 127))])
    while len(found) < pieces - 1:
        found[draw.choice(["▁", ""]) + "".join(draw.choices(SYLLABLES, k=draw.randint(2, 5)))] = None
    return [(piece, -float(8 + number % 7)) for number, piece in enumerate(found)]
