"""Rollouts of language models, and controllers of the KL penalty that keeps them near a reference model."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from tensordict import TensorDict, TensorDictBase

from rlnb.data.ted.keys import MASK

__all__ = ["AdaptiveKLController", "ConstantKLController", "KLControllerBase", "RolloutFromModel"]


class KLControllerBase:
    """Base class of controllers of the coefficient of a KL penalty.

    Args:
        coef: the coefficient.
        model: an object whose attribute ``kl_coef`` is kept equal to the coefficient, such as a
            :class:`RolloutFromModel`.

    Attributes:
        coef: the coefficient now.
    """

    def __init__(self, coef: float, model: Any = None) -> None:
        if model is not None and not hasattr(model, "kl_coef"):
            raise AttributeError(
                f"{type(self).__name__} sets the attribute kl_coef of a model, and a {type(model).__name__} has none. "
                "Fix: a RolloutFromModel, or model=None."
            )
        self.model = model
        self._set(coef)

    def update(self, kl_values: Sequence[float] | None = None) -> float:
        """Return the coefficient after these values of the KL divergence."""
        raise NotImplementedError

    def _set(self, coef: float) -> float:
        self.coef = coef
        if self.model is not None:
            self.model.kl_coef = coef
        return coef


class ConstantKLController(KLControllerBase):
    """A coefficient of the KL penalty that never changes.

    Args:
        kl_coef: the coefficient. Not negative.
        model: an object whose attribute ``kl_coef`` is set to it.

    Raises:
        ValueError: If ``kl_coef`` is negative, infinite or NaN.
        AttributeError: If ``model`` has no attribute ``kl_coef``.

    Example:
        >>> ConstantKLController(kl_coef=0.1).update([12.0])
        0.1
    """

    def __init__(self, *, kl_coef: float, model: Any = None) -> None:
        super().__init__(_number("kl_coef", kl_coef, 0.0), model)

    def update(self, kl_values: Sequence[float] | None = None) -> float:
        """Return the coefficient, whatever the values are."""
        return self._set(self.coef)


class AdaptiveKLController(KLControllerBase):
    r"""A coefficient of the KL penalty that steers the KL divergence to a target.

    After :math:`n` values of the divergence with the mean :math:`\overline{\mathrm{KL}}`, the coefficient
    :math:`\beta` becomes

    .. math::

        e = \mathrm{clip}\left(\frac{\overline{\mathrm{KL}}}{\mathrm{KL}_\mathrm{target}} - 1,\ -0.2,\ 0.2\right),
        \qquad
        \beta \leftarrow \beta \left(1 + e\,\frac{n}{\mathrm{horizon}}\right)

    This is proportional control of the logarithm of the coefficient, which grows while the policy is further from the
    reference than the target, and falls while it is nearer. The clip bounds a step, so that a single wild batch cannot
    upset it. Source: Ziegler et al. (2019), "Fine-Tuning Language Models from Human Preferences", section 2.2,
    https://arxiv.org/abs/1909.08593, where n / horizon is :math:`K_\beta = 0.1`.

    Args:
        init_kl_coef: the coefficient at first. Positive: 0 would stay 0.
        target: the divergence to reach, in nats, in the unit of the values. Positive.
        horizon: number of values after which a persistent error of 20% or more has changed the coefficient by about
            20%.
        model: an object whose attribute ``kl_coef`` is kept equal to the coefficient.

    Raises:
        ValueError: If a number is not positive, infinite or NaN.
        AttributeError: If ``model`` has no attribute ``kl_coef``.

    Example:
        >>> controller = AdaptiveKLController(init_kl_coef=0.1, target=6.0, horizon=10)
        >>> round(controller.update([12.0]), 4)  # twice the target: an error of 1, clipped to 0.2
        0.102
        >>> round(controller.update([3.0]), 4)
        0.1
    """

    def __init__(self, *, init_kl_coef: float, target: float, horizon: int, model: Any = None) -> None:
        self.target = _number("target", target)
        self.horizon = _number("horizon", horizon)
        super().__init__(_number("init_kl_coef", init_kl_coef), model)

    def update(self, kl_values: Sequence[float] | None = None) -> float:
        """Change the coefficient, and return it.

        Args:
            kl_values: the divergences of the policy from the reference since the last call.

        Raises:
            ValueError: If there is no value, one of them is NaN or infinite, or there are 5 times ``horizon`` or more.
                The coefficient stays as it was.
        """
        values = [] if kl_values is None else [float(value) for value in kl_values]
        if not values:
            raise ValueError(
                "AdaptiveKLController.update needs at least one value of the KL divergence, and got none. "
                "Fix: controller.update([kl])."
            )
        if not all(map(math.isfinite, values)):
            raise ValueError(
                f"A value of the KL divergence is not finite: {values}. Likely cause: training diverged, or the "
                "reference gives a token the probability 0. Fix: a smaller learning rate."
            )
        if len(values) >= 5 * self.horizon:
            raise ValueError(
                f"{len(values)} values at once, with a horizon of {self.horizon:g}, could make the coefficient 0 or "
                f"negative. Fix: horizon={len(values)}."
            )
        error = sum(values) / len(values) / self.target - 1
        return self._set(self.coef * (1 + min(max(error, -0.2), 0.2) * len(values) / self.horizon))


class RolloutFromModel:
    r"""Lets a language model answer prompts, and returns the answers as TED data: a token is an action.

    The reward of the last token is the score of the whole text, less the score of the text in the data, clipped. From
    each token's reward, the penalty ``kl_coef * (log pi(a | s) - log pi_ref(a | s))`` is subtracted; the sum of these
    log-ratios over an answer estimates KL(pi || pi_ref) of whole answers (Ziegler et al. 2019; Ouyang et al. 2022).

    All three models are in evaluation mode meanwhile, so that dropout does not change probabilities; no gradient is
    recorded.

    Args:
        model: a causal language model of ``transformers``, or another one with ``generate`` and a ``config``, that
            returns ``logits``.
        ref_model: a frozen copy of the model as it was before training.
        reward_model: a module that is called with ``input_ids`` and ``attention_mask``, ``[B, S]``, and returns a tuple
            of rewards of the tokens (not used) and end scores of the texts, ``[B]`` or ``[B, 1]``; or a TensorDict with
            "end_scores".
        kl_coef: coefficient of the penalty, if there is no ``kl_scheduler``.
        max_new_tokens: the most tokens of an answer.
        score_clip: differences of scores are clipped to ``[-score_clip, score_clip]``.
        kl_scheduler: a controller, whose coefficient is used; see :meth:`step_scheduler`.
        num_steps: number of the last rollouts whose divergences the controller sees. Default: all since its last
            update.

    Attributes:
        kl_coef: the coefficient now.

    Raises:
        TypeError: If ``model`` has no ``generate``.
        ValueError: If a number is out of range.

    Example:
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> from rlnb.data import PromptData
        >>> tiny = GPT2Config(vocab_size=8, n_embd=8, n_layer=1, n_head=1, eos_token_id=7, bos_token_id=7)
        >>> model = GPT2LMHeadModel(tiny)
        >>> threes = lambda input_ids, attention_mask: (None, ((input_ids == 3) & attention_mask.bool()).sum(-1))
        >>> answers = RolloutFromModel(model, model, threes, max_new_tokens=5)
        >>> tokens = torch.tensor([[1, 2], [2, 0]])
        >>> ends, mask = torch.tensor([1, 0]), tokens.gt(0).long()
        >>> prompts = PromptData(input_ids=tokens, attention_mask=mask, prompt_rindex=ends, batch_size=[2])
        >>> data = answers.rollout_from_data(prompts)
        >>> data.batch_size, data["input_ids"].shape, data["next", "reward"].shape
        (torch.Size([2, 5]), torch.Size([2, 5, 7]), torch.Size([2, 5, 1]))
    """

    def __init__(
        self,
        model: Any,
        ref_model: Any,
        reward_model: Any,
        kl_coef: float = 0.1,
        max_new_tokens: int = 50,
        score_clip: float = 10.0,
        kl_scheduler: KLControllerBase | None = None,
        num_steps: int | None = None,
    ) -> None:
        if not callable(getattr(model, "generate", None)):
            raise TypeError(
                f"RolloutFromModel needs a language model with generate, and got a {type(model).__name__}. "
                "Fix: transformers.AutoModelForCausalLM.from_pretrained(...)."
            )
        for name, count in (("max_new_tokens", max_new_tokens), ("num_steps", 1 if num_steps is None else num_steps)):
            if not isinstance(count, int) or count < 1:
                raise ValueError(f"{name} must be a positive integer, got {count!r}.")
        self.model, self.ref_model, self.reward_model = model, ref_model, reward_model
        self.max_new_tokens = max_new_tokens
        self.score_clip = _number("score_clip", score_clip)
        self.kl_scheduler = kl_scheduler
        self.kl_coef = _number("kl_coef", kl_coef, 0.0) if kl_scheduler is None else kl_scheduler.coef
        self._kl_queue: deque[float] = deque(maxlen=num_steps)

    @property
    def mean_kl(self) -> float:
        """Mean divergence of the rollouts since the last :meth:`step_scheduler`, in nats an answer; NaN if none."""
        return sum(self._kl_queue) / len(self._kl_queue) if self._kl_queue else math.nan

    @torch.no_grad()
    def rollout_from_data(self, batch: Any, generation_config: Any = None) -> TensorDict:
        """Answer prompts.

        Args:
            batch: a :class:`PromptData`, or a TensorDict with its entries, of batch size ``[B]``.
            generation_config: as for :meth:`generate`.

        Returns:
            What :meth:`create_rollout_td` returns, of batch size ``[B, max_new_tokens]``.
        """
        return self.create_rollout_td(batch, *self.generate(batch, generation_config))

    @torch.no_grad()
    def generate(self, batch: Any, generation_config: Any = None) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Let the model answer prompts, by sampling.

        Args:
            batch: prompts: ``input_ids`` and ``attention_mask`` of shape ``[B, T]``, and ``prompt_rindex``, ``[B]``.
                What follows the prompts is ignored.
            generation_config: a ``transformers.GenerationConfig``. Default: tokens are drawn from all of the model's
                distribution, as the log-probabilities assume. The number of tokens is always ``max_new_tokens``.

        Returns:
            The prompts and, right after each, its answer, then padding, ``[B, T + max_new_tokens]``; the
            log-probabilities of the tokens of the answers, ``[B, max_new_tokens, 1]``; and their log-ratios to the
            reference, ``[B, max_new_tokens]``. Both are 0 after the end of an answer.

        Raises:
            ValueError: If a prompt has no token.
        """
        prompts, lengths = self._prompts(batch)
        # A model continues at the right end, so prompts are aligned there. At least one column is padding: generate
        # ignores a mask of ones, and then warns of the padding of answers that have ended.
        width = int(lengths.max()) + 1
        place = torch.arange(width, device=lengths.device) - (width - lengths)[:, None]
        aligned = prompts.gather(1, place.clamp(min=0)).masked_fill(place < 0, self._pad_token())
        how: dict[str, Any] = {"generation_config": generation_config}
        if generation_config is None:
            how = {"do_sample": True, "top_k": 0, "top_p": 1.0, "temperature": 1.0}
        with _evaluating(self.model, self.ref_model):
            made = self.model.generate(
                input_ids=aligned,
                attention_mask=(place >= 0).long(),
                max_new_tokens=self.max_new_tokens,
                pad_token_id=self._pad_token(),
                **how,
            )[:, width:]
            missing = self.max_new_tokens - made.shape[1]  # all answers have ended
            made = torch.nn.functional.pad(made, (0, missing), value=self._pad_token())
            steps = self._steps(made)
            generated = torch.nn.functional.pad(prompts, (0, self.max_new_tokens), value=self._pad_token())
            generated.scatter_(1, _places(lengths, made), made.masked_fill(~steps, self._pad_token()))
            width += self.max_new_tokens - 1  # the columns beyond are padding, which a model need not see
            mask = torch.arange(width, device=made.device) < (lengths + steps.sum(1))[:, None]
            log_probs, reference = (
                self._log_probs(model, generated[:, :width], mask, lengths).masked_fill(~steps, 0.0)
                for model in (self.model, self.ref_model)
            )
        return generated, log_probs.unsqueeze(-1), log_probs - reference

    @torch.no_grad()
    def create_rollout_td(
        self, batch: Any, generated: torch.Tensor, log_probs: torch.Tensor, log_ratio: torch.Tensor
    ) -> TensorDict:
        """Make TED data of answers: what an env that appends one token a step would have given.

        Args:
            batch: the prompts, as for :meth:`generate`.
            generated: prompts and answers, ``[B, S]``; here ``S = T + max_new_tokens``, and ``N = max_new_tokens``.
            log_probs: log-probabilities of the tokens, ``[B, N, 1]``.
            log_ratio: their log-ratios to the reference, ``[B, N]``.

        Returns:
            A TensorDict of batch size ``[B, N]`` with

            - "input_ids" and "attention_mask" ``[B, N, S]``, also under "next": the text before and after the token;
            - "action": the token; "sample_log_prob" ``[B, N, 1]``;
            - "mask": False after the end of an answer;
            - ("next", "reward"): the sum of ("next", "reward_raw"), the clipped score in the last step of an answer,
              and ("next", "reward_kl"), the negative penalty; all ``[B, N, 1]``;
            - ("next", "terminated"), where the answer ends with the token that ends sequences, ("next", "truncated"),
              where it is cut off at ``max_new_tokens``, and ("next", "done"), either of them.

        Raises:
            ValueError: If the end scores are not one a text, or not finite.
        """
        _, lengths = self._prompts(batch)
        steps_total = log_ratio.shape[1]
        time = torch.arange(steps_total, device=generated.device)
        action = generated.gather(1, lengths[:, None] + time)
        steps = self._steps(action)
        answer = steps.sum(1)
        last = (time == (answer - 1)[:, None]).unsqueeze(-1)
        ends = torch.isin(action, self._end_tokens(action)).unsqueeze(-1) & last

        column = torch.arange(generated.shape[1], device=generated.device)
        written = [lengths[:, None] + torch.minimum(time + later, answer[:, None]) for later in (0, 1)]
        masks = [column < count.unsqueeze(-1) for count in written]
        texts = [torch.where(mask, generated[:, None], self._pad_token()) for mask in masks]

        score = self._scores(generated, column < (lengths + answer)[:, None])
        score = score - self._scores(batch.get("input_ids"), batch.get("attention_mask"))
        raw = score.clamp(-self.score_clip, self.score_clip)[:, None, None] * last
        penalty = (-self.kl_coef * log_ratio.unsqueeze(-1)).masked_fill(~steps.unsqueeze(-1), 0.0)
        self._kl_queue.append(float(log_ratio.masked_fill(~steps, 0.0).sum(1).mean()))

        below = {"input_ids": texts[1], "attention_mask": masks[1], "reward": raw + penalty}
        below |= {"reward_raw": raw, "reward_kl": penalty}
        below |= {"done": last, "terminated": ends, "truncated": last & ~ends}
        size = list(action.shape)
        root = {"input_ids": texts[0], "attention_mask": masks[0], "action": action, "sample_log_prob": log_probs}
        return TensorDict({**root, MASK: steps, "next": TensorDict(below, size)}, size)

    def step_scheduler(self) -> None:
        """Let the controller change the coefficient, after the divergences of the rollouts since the last call.

        Nothing changes without a controller.

        Raises:
            ValueError: If there was no rollout, or its divergence is not finite.
        """
        if self.kl_scheduler is not None:
            self.kl_coef = self.kl_scheduler.update(list(self._kl_queue))
        self._kl_queue.clear()

    @staticmethod
    def logprobs_of_labels(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Return the log-probabilities of labels.

        Args:
            logits: ``[*B, vocabulary]``.
            labels: tokens, ``[*B]``.

        Returns:
            Of shape ``[*B]``.

        Example:
            >>> RolloutFromModel.logprobs_of_labels(torch.zeros(1, 4), torch.tensor([2])).exp()
            tensor([0.2500])
        """
        return logits.log_softmax(-1).gather(-1, labels.unsqueeze(-1)).squeeze(-1)

    def _log_probs(self, model: Any, tokens: torch.Tensor, mask: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Return a model's log-probabilities of the tokens of answers, ``[B, N]``."""
        logits = model(input_ids=tokens, attention_mask=mask.long()).logits
        each = self.logprobs_of_labels(logits[:, :-1].float(), tokens[:, 1:])  # logits predict the token after theirs
        time = torch.arange(self.max_new_tokens, device=tokens.device)
        return each.gather(1, lengths[:, None] - 1 + time)

    def _prompts(self, batch: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """Return prompts, padded at the right to the width of the batch, and their lengths."""
        ids, mask = batch.get("input_ids"), batch.get("attention_mask").bool()
        last = batch.get("prompt_rindex")
        place = torch.arange(ids.shape[-1], device=ids.device)
        prompt = mask & (place <= last[:, None])
        lengths = prompt.sum(1)
        if not bool((lengths > 0).all()):
            row = int((lengths == 0).nonzero()[0])
            raise ValueError(
                f"The prompt in row {row} has no token: prompt_rindex is {int(last[row])}, and the attention mask is 0 "
                "up to there. Fix: PromptTensorDictTokenizer, which writes both."
            )
        order = (~prompt).int().argsort(dim=1, stable=True)  # the prompt first, as it is padded at the left too
        return ids.gather(1, order).masked_fill(place >= lengths[:, None], self._pad_token()), lengths

    def _steps(self, action: torch.Tensor) -> torch.Tensor:
        """Whether tokens belong to their answers: those up to the first one that ends a sequence."""
        ended = torch.isin(action, self._end_tokens(action)).int().cumsum(1)
        return ended.roll(1, 1).index_fill(1, torch.tensor([0], device=action.device), 0) == 0

    def _end_tokens(self, like: torch.Tensor) -> torch.Tensor:
        tokens = self.model.config.eos_token_id
        return torch.as_tensor([-1] if tokens is None else tokens, device=like.device).reshape(-1)

    def _pad_token(self) -> int:
        config = self.model.config
        if config.pad_token_id is not None:
            return int(config.pad_token_id)
        ends = config.eos_token_id
        return int(ends[0] if isinstance(ends, (list, tuple)) else ends or 0)

    def _scores(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        with _evaluating(self.reward_model):
            found = self.reward_model(tokens, mask.long())
        scores = found.get("end_scores") if isinstance(found, TensorDictBase) else found[1]
        if scores.numel() != len(tokens):
            raise ValueError(
                f"The reward model gave end scores of shape {list(scores.shape)} for {len(tokens)} texts. "
                "Fix: return (rewards, end_scores) with end_scores of shape [B] or [B, 1]."
            )
        scores = scores.reshape(-1).float()
        if not bool(scores.isfinite().all()):
            raise ValueError(f"The reward model gave a score that is not finite: {scores.tolist()}.")
        return scores


def _places(lengths: torch.Tensor, made: torch.Tensor) -> torch.Tensor:
    return lengths[:, None] + torch.arange(made.shape[1], device=made.device)


@contextmanager
def _evaluating(*models: Any) -> Iterator[None]:
    """Hold models in evaluation mode."""
    training = [model for model in models if getattr(model, "training", False)]
    for model in training:
        model.eval()
    try:
        yield
    finally:
        for model in training:
            model.train()


def _number(name: str, value: float, least: float | None = None) -> float:
    """Check a coefficient: positive, or at least ``least``; and finite."""
    if not (
        isinstance(value, (int, float)) and math.isfinite(value) and (value > 0 if least is None else value >= least)
    ):
        legal = "positive and finite" if least is None else f"at least {least:g} and finite"
        raise ValueError(f"{name} must be {legal}, got {value!r}.")
    return value
