"""Typed, suspicious access to the fields of a model configuration.

A configuration comes from anywhere. ``Fields`` hands out values only in the type asked for, and
remembers which were asked for: what is left over at the end must be known to be harmless, or the
model is refused, because an unread field may change a shape.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from chipwise.errors import DataFileError
from chipwise.i18n import _

LARGEST_SIZE = 10**9
MOST_LAYERS = 2000

_HARMLESS_NAMES = """
architectures auto_map model_type model_name name license description tokenizer_class
tokenizer_type chat_format language quantization_config compression_config use_cache is_decoder
return_dict use_return_dict torchscript task_specific_params id2label label2id problem_type prefix
finetuning_task pruned_heads chunk_size_feed_forward gradient_checkpointing num_labels
initializer_range initializer_factor init_std init_method init_device init_config
rms_norm_eps layer_norm_epsilon layernorm_epsilon norm_epsilon rescale_prenorm_residual
embedding_initializer_range summary_activation summary_type summary_use_proj summary_proj_to_labels
summary_first_dropout

dropout dropout_rate hidden_dropout layerdrop classifier_dropout_prob hidden_dropout_prob
attention_probs_dropout_prob

hidden_act hidden_activation activation_function activation swiglu_limit swiglu_limits
swiglu_limits_shared swiglu_alpha
attn_logit_softcapping final_logit_softcapping attention_value_scale query_pre_attn_scalar
logit_scale scale_attn_weights scale_attn_by_inverse_layer_idx reorder_and_upcast_attn
scale_attention_softmax_in_fp32 attention_softmax_in_fp32 softmax_in_fp32
apply_query_key_layer_scaling fp32_residual_connection clip_qkv masked_softmax_fusion
bias_dropout_fusion slow_but_exact skip_bias_add_qkv embedding_fraction mscale mscale_all_dim
apply_residual_connection_post_layernorm attn_scale floor_scale attn_temperature_tuning

rope_theta rope_scaling rope_parameters rope_type rope_ratio rope_local_base_freq rope_interleave
rope_pct rotary_pct rotary_emb_base rotary_dim rotary rotary_percent partial_rotary_factor
original_rope original_max_position_embeddings initial_context_length swa_rope_theta
use_dynamic_ntk use_logn_attn nope_layer_interval alibi_bias_max default_theta rotary_emb_fraction
no_rope_layer_interval use_rotary_position_embeddings

bos_token eos_token pad_token bos_token_ids eos_token_ids eop_token_ids decoder_start_token_id
suppress_tokens begin_suppress_tokens bad_words_ids tie_encoder_decoder

max_length min_length do_sample early_stopping num_beams num_beam_groups diversity_penalty
temperature top_k top_p typical_p repetition_penalty length_penalty no_repeat_ngram_size
encoder_no_repeat_ngram_size num_return_sequences remove_invalid_values renormalize_logits
exponential_decay_length_penalty tf_legacy_loss use_bfloat16 return_dict_in_generate

pretraining_tp ep_size bf16 fp16 fp32 quantization_bit pre_seq_len prefix_projection fuse_matmul
onnx_safe use_cache_kernel use_cache_quantization softmax_in_fp32 max_generate_length
low_cpu_mem_usage device_map verbose world_size tensor_parallel_degree

aux_loss_alpha seq_aux router_jitter_noise input_jitter_noise moe_loss_weight n_group topk_group
norm_topk_prob routed_scaling_factor scoring_func router_z_loss_coef moe_router_scaling_factor
moe_jitter_eps moe_normalize_expert_weights uniform_expert_assignment

num_nextn_predict_layers mtp_num_hidden_layers mtp_use_dedicated_embeddings num_mtp_modules
mtp_transformer_layers use_mtp mtp_loss_scaling_factor mtp_layer_types mtp_mlp_layer_types
mtp_layers_block_type
"""
HARMLESS = frozenset(_HARMLESS_NAMES.split())
"""Fields that change no tensor of the decoder: numerics, rotary positions, tokens, training,
generation, and the multi-token-prediction layers that are left out on purpose."""

HARMLESS_WHEN_FALSE = frozenset(
    {
        *("add_cross_attention", "is_encoder_decoder", "use_mrope"),
        *("mlp_bias", "attention_bias", "use_bias"),
    }
)
"""Switches whose ``false`` is what every reader assumes; ``true`` must be read by the family."""

_HARMLESS_FORM = re.compile(
    r"^_|^unsloth|^output_|^attn_implementation|^use_flash|_token_ids?$|_token_index$|_version$"
    r"|_dropout$|_pdrop$|_eps$|_loss_coef$|dtype$|_implementation$"
)


class Fields:
    """The fields of one configuration, by name, with defaults of the model's own class.

    Args:
        config: the JSON object.
        family: its ``model_type``, for error messages.
    """

    def __init__(self, config: Mapping[str, object], family: str) -> None:
        self._config = config
        self._read: set[str] = set()
        self.family = family

    def __contains__(self, name: str) -> bool:
        return self._config.get(name) is not None

    def size(self, *names: str, default: int | None = None, least: int = 0) -> int:
        """A whole number from ``least`` on, under the first of the names that is present.

        Raises:
            DataFileError: absent without a default, no whole number, negative or absurdly large.
        """
        value = self._first(names)
        if value is None:
            if default is None:
                raise self.missing(names[0])
            return default
        if isinstance(value, bool) or not isinstance(value, int):
            raise self.bad(names[0], value, _("must be a whole number"))
        if not least <= value <= LARGEST_SIZE:
            raise self.bad(
                names[0],
                value,
                _("must be from {least} to {most:,}").format(least=least, most=LARGEST_SIZE),
            )
        return value

    def layers(self, *names: str) -> int:
        """The number of layers, from 1 to ``MOST_LAYERS``."""
        value = self.size(*names, least=1)
        if value > MOST_LAYERS:
            raise self.bad(
                names[0], value, _("must be from 1 to {most:,}").format(most=MOST_LAYERS)
            )
        return value

    def window(self, default: int = 0) -> int:
        """``sliding_window`` in tokens: 0 where it is ``null``, the class's own where absent."""
        self._read.add("sliding_window")
        if "sliding_window" in self._config and self._config["sliding_window"] is None:
            return 0
        return self.size("sliding_window", default=default)

    def rank(self, name: str) -> int:
        """A low rank that may be ``null`` (0: one full matrix) but must be stated."""
        self._read.add(name)
        if name in self._config and self._config[name] is None:
            return 0
        return self.size(name)

    def flag(self, name: str, default: bool = False) -> bool:
        """A truth value (0 and 1 are accepted)."""
        value = self._first((name,))
        if value is None:
            return default
        if value in (True, False):
            return bool(value)
        raise self.bad(name, value, _("must be true or false"))

    def text(self, name: str, default: str = "") -> str:
        """A string."""
        value = self._first((name,))
        if value is None:
            return default
        if not isinstance(value, str):
            raise self.bad(name, value, _("must be a text"))
        return value

    def sequence(self, name: str) -> list[object]:
        """A list; empty when absent."""
        value = self._first((name,))
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.bad(name, value, _("must be a list"))
        return value

    def per_layer(self, name: str, layers: int) -> list[object]:
        """A list with one entry for each layer; empty when absent."""
        values = self.sequence(name)
        if values and len(values) < layers:
            raise self.bad(
                name,
                len(values),
                _("must have one entry for each of the {layers} layers").format(layers=layers),
            )
        return values[:layers]

    def indices(self, name: str) -> frozenset[int]:
        """A list of layer indices, as a set; empty when absent."""
        values = self.sequence(name)
        if any(isinstance(value, bool) or not isinstance(value, int) for value in values):
            raise self.bad(name, values, _("must be a list of whole numbers"))
        return frozenset(value for value in values if isinstance(value, int))

    def nested(self, name: str) -> Fields:
        """An inner object, read by the same rules; empty when absent."""
        value = self._first((name,))
        if value is None:
            return Fields({}, self.family)
        if not isinstance(value, Mapping):
            raise self.bad(name, value, _("must be an object"))
        return Fields(value, self.family)

    def layer_overrides(self, name: str, layers: int, *allowed: str) -> dict[int, Fields]:
        """An object that maps layer numbers to sizes of that layer which differ from the rest."""
        found: dict[int, Fields] = {}
        inner = self.nested(name)
        for key in inner._config:
            if not key.isdecimal() or int(key) >= layers:
                raise self.bad(
                    name, key, _("must name layers from 0 to {last}").format(last=layers - 1)
                )
            found[int(key)] = inner.nested(key)
            if unknown := set(found[int(key)]._config) - set(allowed):
                raise self.bad(name, min(unknown), _("is not known to chipwise"))
        return found

    def ignore(self, *names: str) -> None:
        """Mark fields as harmless for this family."""
        self._read.update(names)

    def expect(self, name: str, *allowed: object) -> None:
        """A field that may only have one of the values for which the reader is right."""
        value = self._first((name,))
        if value is not None and value not in allowed:
            shown = _(" or ").join(str(entry).lower() for entry in allowed)
            raise self.bad(name, value, _("is supported only as {allowed}").format(allowed=shown))

    def finish(self) -> None:
        """Refuse fields that nobody read and that are not known to be harmless.

        Raises:
            DataFileError: names the fields; ``null`` values and harmless fields are passed over.
        """
        unknown = [
            name
            for name, value in self._config.items()
            if value is not None
            and name not in self._read
            and name not in HARMLESS
            and not (value is False and name in HARMLESS_WHEN_FALSE)
            and not _HARMLESS_FORM.search(name)
        ]
        if unknown:
            raise DataFileError(
                "unknown-config-field",
                _(
                    "configuration of type '{family}' has fields chipwise does not know and that "
                    "may change its size: {fields}. Remove them if they do not."
                ).format(family=self.family, fields=", ".join(sorted(unknown)[:8])),
                fields=tuple(sorted(unknown)),
                family=self.family,
            )

    def _first(self, names: tuple[str, ...]) -> object:
        self._read.update(names)
        present = [self._config[name] for name in names if self._config.get(name) is not None]
        return present[0] if present else None

    def missing(self, name: str) -> DataFileError:
        """The error for a field that must be there."""
        return DataFileError(
            "missing-config-field",
            _("configuration of type '{family}' has no '{name}'").format(
                family=self.family, name=name
            ),
            name=name,
        )

    def not_one_of(self, name: str, value: object, allowed: Iterable[object]) -> DataFileError:
        """The error for a value outside a closed list."""
        shown = ", ".join(str(entry) for entry in allowed)
        return self.bad(name, value, _("must be one of {allowed}").format(allowed=shown))

    def bad(self, name: str, value: object, reason: str) -> DataFileError:
        """The error for a field whose value cannot be right."""
        return DataFileError(
            "bad-config-field",
            _("configuration field '{name}' = {value}: {reason}").format(
                name=name, value=str(value)[:60], reason=reason
            ),
            name=name,
        )
