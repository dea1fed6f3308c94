"""What differs between releases of Transformers, probed once, so that nothing else asks for a version.

Modelled: the word for the cache and for positions in a forward call, the argument of `crop`, whether a
layer of fixed size can be cropped, and how a new layer is given rows. Left out: releases before 4.56,
whose caches have no layers. Each answer is read off a signature or an attribute, not off a version number.
"""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any

import attrs
import torch
from torch import Tensor


class TransformersMissingError(ImportError):
    """Transformers is not installed here."""


@attrs.frozen
class Library:
    """The calls of the installed release.

    release: its version, for reports. cache_word: the parameter of `forward` that takes a cache.
    position_word: the parameter that tells the positions of the tokens. crops_by_removal: `crop` takes
    rows to remove as a number of zero or less, else the rows to keep. has_static_crop: layers of fixed
    size have a `crop`.
    """

    release: str
    cache_word: str
    position_word: str
    crops_by_removal: bool
    has_static_crop: bool

    @property
    def major(self) -> int:
        """The major release, which names the files of known failures."""
        return int(self.release.split(".", maxsplit=1)[0])

    def forward(
        self, model: Any, ids: list[int], held: Any = None, positions: Tensor | None = None
    ) -> Tensor:
        """Logits [vocab] after the last of the ids, rows going to the cache `held` if there is one.

        positions: [number of ids]; without them the library goes on from its own `get_seq_length`.
        """
        more: dict[str, Any] = {}
        if held is not None:
            more[self.cache_word] = held
        if positions is not None:
            more[self.position_word] = (
                positions if self.position_word == "cache_position" else positions[None]
            )
        with torch.no_grad():
            out = model(
                input_ids=torch.tensor([ids], dtype=torch.long),
                use_cache=held is not None,
                **more,
            )
        logits: Tensor = out.logits[0, -1]
        return logits

    def crop(self, held: Any, rows: int) -> None:
        """Ask the cache to keep so many rows, in the words of the release: nothing is corrected here."""
        held.crop(rows - int(held.get_seq_length()) if self.crops_by_removal else rows)

    def fill(self, layer: Any, keys: Tensor, values: Tensor) -> None:
        """Give a new dynamic layer rows [1, H_kv, T, d_h] without a copy."""
        layer.lazy_initialization(*((keys, values) if self.crops_by_removal else (keys,)))
        layer.keys, layer.values = keys, values


@cache
def library() -> Library:
    """The installed release.

    Raises:
        TransformersMissingError: there is none.
    """
    try:
        import transformers
        from transformers.cache_utils import StaticLayer
    except ImportError as missing:
        raise TransformersMissingError(
            f"found no transformers ({missing}), expected 4.57 or later: pip install 'kvspec[transformers]'"
        ) from missing
    words = inspect.signature(transformers.LlamaForCausalLM.forward).parameters
    return Library(
        release=str(transformers.__version__),
        cache_word="cache" if "cache" in words else "past_key_values",
        position_word="cache_position" if "cache_position" in words else "position_ids",
        crops_by_removal="tokens_to_remove"
        in inspect.signature(transformers.DynamicCache.crop).parameters,
        has_static_crop=hasattr(StaticLayer, "crop"),
    )
