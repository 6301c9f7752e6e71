"""Kernels as operators of torch: `custom_op` gives a function that launches them everything that torch asks of one.

Such an operator is one node in a graph of `torch.compile`, runs on CPU tensors (on the simulator) and CUDA tensors
alike, and on the caller's current stream, also while a CUDA graph is captured.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import torch

OUTPUTS = "outputs"
"""Among `saves`: what the operator returned."""


def custom_op(
    name: str,
    *,
    like: str | Sequence[str] | None = None,
    fake: Callable[..., Any] | None = None,
    mutates: Sequence[str] = (),
    saves: Sequence[str] = (),
    backward: Callable[..., Any] | None = None,
) -> Callable[[Callable[..., Any]], Any]:
    """Makes an annotated function of tensors a `torch.library` operator called `name`, such as "mylibrary::scale".

    What its results are like without running it is said in one of two ways: `like` names, for each result, the
    parameter whose shape, dtype, device and strides it has (as `torch.empty_like` gives them); `fake` computes results
    of the right kind from arguments without data. A function that only changes its arguments in place needs neither;
    `mutates` names the parameters that it changes. Results must be new tensors, not views of arguments.

    `backward(saved, *gradients)` makes the operator differentiable: from the gradients of its results it returns those
    of its arguments, one for each parameter, or the one alone, `None` where there is none. `saved` has, by name, the
    parameters listed in `saves` and, under "outputs", a tuple of the results. Gradients may have any strides.

    The function gets tensors as they are, views and strides included, with gradients off. Errors: `TypeError` and
    `ValueError` for a declaration that does not fit the function.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        parameters = list(inspect.signature(function).parameters)
        _check(function.__name__, parameters, like, fake, mutates, saves)
        operator = torch.library.custom_op(name, function, mutates_args=tuple(mutates))
        operator.register_fake(fake if fake is not None else _fake(function, like))
        if backward is not None:
            _register_backward(operator, parameters, saves, backward)
        return operator

    return decorate


def _check(
    name: str,
    parameters: Sequence[str],
    like: str | Sequence[str] | None,
    fake: Callable[..., Any] | None,
    mutates: Sequence[str],
    saves: Sequence[str],
) -> None:
    if like is not None and fake is not None:
        raise TypeError(f"{name}: give `like` or `fake`, not both")
    if like is None and fake is None and not mutates:
        raise TypeError(
            f"{name}: say what the results are like with `like` or `fake`, or what is changed in place with `mutates`"
        )
    for role, names in (("like", _names(like)), ("mutates", mutates), ("saves", saves)):
        for each in names:
            if each not in parameters and not (role == "saves" and each == OUTPUTS):
                raise ValueError(f"{name}: `{role}` names {each!r}; the parameters are {', '.join(parameters)}")


def _names(like: str | Sequence[str] | None) -> tuple[str, ...]:
    return () if like is None else (like,) if isinstance(like, str) else tuple(like)


def _fake(function: Callable[..., Any], like: str | Sequence[str] | None) -> Callable[..., Any]:
    """What gives empty results, each like the parameter that is named for it."""
    signature = inspect.signature(function)

    def fake(*arguments: Any, **keywords: Any) -> Any:
        bound = signature.bind(*arguments, **keywords).arguments
        results = tuple(torch.empty_like(bound[name]) for name in _names(like))
        return results[0] if isinstance(like, str) else results or None

    return fake


def _register_backward(
    operator: Any, parameters: Sequence[str], saves: Sequence[str], backward: Callable[..., Any]
) -> None:
    def keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        values = dict(zip(parameters, inputs, strict=True))
        outputs = output if isinstance(output, tuple) else (output,)
        chosen = {name: outputs if name == OUTPUTS else (values[name],) for name in saves}
        ctx.save_for_backward(*(value for group in chosen.values() for value in group if _is_tensor(value)))
        ctx.kept = {
            name: tuple(None if _is_tensor(value) else value for value in group) for name, group in chosen.items()
        }
        ctx.tensors = {name: tuple(map(_is_tensor, group)) for name, group in chosen.items()}

    def run(ctx: Any, *gradients: Any) -> Any:
        tensors = iter(ctx.saved_tensors)
        saved = SimpleNamespace()
        for name, group in ctx.kept.items():
            found = tuple(
                next(tensors) if is_tensor else value for value, is_tensor in zip(group, ctx.tensors[name], strict=True)
            )
            setattr(saved, name, found if name == OUTPUTS else found[0])
        return backward(saved, *gradients)

    operator.register_autograd(run, setup_context=keep)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)
