"""A model's configuration from the Hugging Face hub, when online and asked for by its hub id."""

from __future__ import annotations

from pathlib import Path

from chipwise.catalogue.huggingface import CONFIG, read_model
from chipwise.errors import UsageError
from chipwise.i18n import _
from chipwise.spec.model import ModelSpec


def model_from_hub(hub_id: str, like: str = "") -> ModelSpec:
    """Fetch ``config.json`` (nothing else, no code) of a hub id and read it.

    The optional package huggingface_hub does the fetching, with its own cache and credentials.

    Args:
        hub_id: ``organisation/name``.
        like: catalogue model whose name the hub id begins with, to offer instead.

    Raises:
        UsageError: the package is not installed, or the file cannot be had.
        DataFileError: the configuration is not one chipwise can read.
    """
    hint = _("; the catalogue has '{name}', which may be of the same shape: name it as MODEL")
    instead = hint.format(name=like) if like else ""
    try:
        from huggingface_hub import hf_hub_download
    except ImportError:
        raise UsageError(
            "hub-package-missing",
            _(
                "'{name}' is in no catalogue and no file; to ask the Hugging Face hub for it, "
                "install huggingface_hub: pip install 'chipwise[hub]'"
            ).format(name=hub_id)
            + instead,
            name=hub_id,
            nearest=[like] if like else [],
        ) from None
    try:
        file = Path(hf_hub_download(hub_id, CONFIG))
    except Exception as error:
        reason = str(error).strip().partition("\n")[0][:200] or type(error).__name__
        raise UsageError(
            "hub-unreachable",
            _("the Hugging Face hub gave no configuration for '{name}': {reason}").format(
                name=hub_id, reason=reason
            )
            + instead,
            name=hub_id,
            nearest=[like] if like else [],
        ) from None
    return read_model(file, id=hub_id)
