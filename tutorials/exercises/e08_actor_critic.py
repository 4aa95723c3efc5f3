"""Exercises of lesson 8: the loss of REINFORCE, a baseline, the TD error as an advantage, and GAE."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from rlnb.objectives.value.functional import generalized_advantage_estimate

from .asking import ask, fail, kind_of, require, right
from .exercise import WrongAnswer, exercise
from .mutants import instead
from .poles import Poles, log_prob_of, network, returns_to_go
from .policy_pictures import Spread, Trained
from .verdict import Outcome

GAMMA = 0.95
REINFORCE = """
    def reinforce_loss(log_prob, G):
        return -(log_prob * G).mean()
"""

LOSSES = """
    def losses(log_prob, G, V):
        advantage = G - V.detach()
        actor_loss = -(log_prob * advantage).mean()
        critic_loss = ((G - V) ** 2).mean()
        return actor_loss, critic_loss
"""

TD_ERROR = """
    def td_error(reward, V, V_next, terminated, gamma):
        return reward + gamma * V_next * ~terminated - V
"""

GAE = """
    def gae(delta, done, gamma, lmbda):
        A = torch.zeros_like(delta)
        following = torch.zeros_like(delta[0])
        for t in reversed(range(len(delta))):
            following = delta[t] + gamma * lmbda * following * ~done[t]
            A[t] = following
        return A
"""


def _one_step(
    reward: torch.Tensor, V: torch.Tensor, V_next: torch.Tensor, terminated: torch.Tensor, gamma: float
) -> torch.Tensor:
    return reward + gamma * V_next * ~terminated - V


def _scalar(value: Any, name: str) -> torch.Tensor:
    """Take a loss as a tensor of one number that depends on something, or end the check."""
    require(isinstance(value, torch.Tensor), f"{name}: expected a tensor, got {kind_of(value)}.")
    require(value.numel() == 1, f"{name}: expected one number for the batch, got shape {tuple(value.shape)}.")
    loss: torch.Tensor = value.reshape(())
    return loss


def _gradient(loss: torch.Tensor, of: torch.Tensor) -> torch.Tensor:
    if not loss.requires_grad:
        return torch.zeros_like(of)
    found = torch.autograd.grad(loss, of, retain_graph=True, allow_unused=True)[0]
    return torch.zeros_like(of) if found is None else found


def _along(one: torch.Tensor, two: torch.Tensor) -> bool:
    """Whether one vector is a positive multiple of the other."""
    return bool(one.norm() > 0) and bool(torch.allclose(one / one.norm(), two / two.norm(), atol=1e-5))


@exercise(
    title="The loss of REINFORCE",
    prompt="""
        Write `reinforce_loss(log_prob, G)`. `log_prob` holds ln π(*A* | *S*) of each step and carries the gradient, `G`
        holds the return that followed the step; both have the shape `[steps]`. Return one number such that the
        optimizer, which goes *downhill*, follows the policy gradient uphill. The check trains a network with it.
    """,
    stub="""
        def reinforce_loss(log_prob, G):
            # optimizers minimise, but you want to climb
            ...
    """,
    hints=[
        "The policy gradient is the mean of `G` times the gradient of `log_prob`. Which number has this gradient?",
        "`(log_prob * G).mean()` has this gradient, but an optimizer would minimise it.",
        "Put a minus sign in front.",
    ],
    solution=REINFORCE,
    wrong=[
        instead(REINFORCE, of="-(", put="(", says="It goes downhill"),
        instead(REINFORCE, of=" * G", put="", says="`G` has no effect"),
        instead(REINFORCE, of="log_prob *", put="log_prob.exp() *", says="of the probability, not of its logarithm"),
        instead(REINFORCE, of="log_prob *", put="log_prob.detach() *", says="does not reach the policy"),
        instead(REINFORCE, of=".mean()", put="", says="one number for the batch"),
        instead(REINFORCE, of="(log_prob * G).mean()", put="log_prob.mean() * G.mean()", says="the same push"),
        instead(REINFORCE, of="-(log_prob * G).mean()", put="-G.mean().item()", says="expected a tensor"),
    ],
    accepted=["def reinforce_loss(log_prob, G): return torch.sum(log_prob * -G)"],
    setup="import torch",
    seconds=60.0,
)
def reinforce_loss(reinforce_loss: Callable[..., Any]) -> Outcome:
    """Look at the gradient of a few steps, then train."""
    log_prob = torch.tensor([-0.7, -0.2, -1.6, -0.1], requires_grad=True)
    G = torch.tensor([10.0, 9.0, 2.0, 1.0])
    loss = _scalar(ask(reinforce_loss, log_prob, G), "The loss")
    push = -_gradient(loss, log_prob)  # what the optimizer does to each log-probability
    require(bool(push.norm() > 0), "Its gradient does not reach the policy, so nothing would change.")
    require(not _along(-push, G), "It goes downhill: actions with large returns become less probable.")
    even = f"`G` = {G.tolist()}, but all four actions get the same push"
    if _along(push, torch.ones(4)):
        more = _gradient(_scalar(ask(reinforce_loss, log_prob, 3 * G), "The loss"), log_prob)
        require(not torch.allclose(more, -push), f"`G` has no effect on the gradient: {even}.")
        fail(f"{even}. Each action should be pushed by the return that followed it.")
    require(
        not _along(push, G * log_prob.detach().exp()),
        "It takes the gradient of the probability, not of its logarithm, which pushes rare actions too little.",
    )
    got = [round(p, 3) for p in push.tolist()]
    require(_along(push, G), f"Expected pushes proportional to the returns {G.tolist()}, got {got}.")
    curve = _train_reinforce(reinforce_loss)
    shown = Trained({"mean return of 16 episodes": {"with your loss": curve}})
    return right("Actions with large returns become more probable, and the return rises:", shown)


def _train_reinforce(loss_of: Callable[..., Any], updates: int = 25) -> list[float]:
    torch.manual_seed(0)
    poles, actor, curve = Poles(16), network(2), []
    optimizer = torch.optim.Adam(actor.parameters(), lr=0.03)
    for _ in range(updates):
        steps, mine = poles.episodes(actor)
        loss = loss_of(log_prob_of(actor, steps, mine), returns_to_go(steps.reward, steps.done, 0.99)[mine])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        curve.append(mine.sum(0).float().mean().item())
    return curve


@exercise(
    title="Better or worse than expected?",
    prompt="""
        Write `losses(log_prob, G, V)` for an actor and a critic. `V` is the critic's output for each step, with its
        gradient. Return two numbers: the actor's loss, which is that of REINFORCE with the advantage `G - V` in place
        of `G`, and the critic's loss, the mean squared error of `V` as a prediction of `G`. The actor's loss must not
        move the critic. The check measures the spread of the gradient with your loss.
    """,
    stub="""
        def losses(log_prob, G, V):
            # V.detach() is V without its gradient
            ...
    """,
    hints=[
        "Start with the advantage, `G - V`. Which of the two losses should send a gradient into `V`?",
        "In the actor's loss, the advantage is only a weight: use `V.detach()` there.",
        "`-(log_prob * (G - V.detach())).mean()` and `((G - V) ** 2).mean()`.",
    ],
    solution=LOSSES,
    wrong=[
        instead(LOSSES, of="G - V.detach()", put="G", says="has no baseline"),
        instead(LOSSES, of="G - V.detach()", put="G - V", says="The actor's loss moves the critic"),
        instead(LOSSES, of="G - V.detach()", put="V.detach() - G", says="The advantage has the wrong sign"),
        instead(LOSSES, of="(G - V) **", put="(G - V.detach()) **", says="The critic learns nothing"),
        instead(LOSSES, of="((G - V) ** 2)", put="(G - V).abs()", says="is not the squared error"),
        instead(LOSSES, of="((G - V) ** 2)", put="-((G - V) ** 2)", says="away from the returns"),
        instead(LOSSES, of="return actor_loss, critic_loss", put="return actor_loss", says="Expected two losses"),
        instead(LOSSES, of="return actor_loss, critic_loss", put="return critic_loss, actor_loss", says="swapped"),
    ],
    accepted=[
        """
        def losses(log_prob, G, V):
            return torch.mean(log_prob * (V - G).detach()), torch.nn.functional.mse_loss(V, G)
        """,
    ],
    setup="import torch",
    seconds=60.0,
)
def baseline(losses: Callable[..., Any]) -> Outcome:
    """Look at four gradients, then measure the spread of the gradient of a policy with one parameter."""
    log_prob = torch.tensor([-0.7, -0.2, -1.6, -0.1], requires_grad=True)
    V, G = torch.tensor([6.0, 8.0, 3.0, 5.0], requires_grad=True), torch.tensor([10.0, 7.0, 2.0, 1.0])
    got = ask(losses, log_prob, G, V)
    require(isinstance(got, tuple | list) and len(got) == 2, "Expected two losses, the actor's and the critic's.")
    actor, critic = _scalar(got[0], "The actor's loss"), _scalar(got[1], "The critic's loss")
    advantage = G - V.detach()
    push = -_gradient(actor, log_prob)
    swapped = not bool(push.norm() > 0) and bool(_gradient(critic, log_prob).norm() > 0)
    require(not swapped, "The two losses are swapped: the actor's comes first.")
    require(bool(push.norm() > 0), "The actor's loss does not reach the policy, so nothing would change.")
    require(not _along(push, G), "The actor's loss has no baseline: the pushes are proportional to `G`.")
    require(not _along(-push, advantage), "The advantage has the wrong sign: better than expected means `G` above `V`.")
    require(_along(push, advantage), f"The pushes should be proportional to `G - V`, {advantage.tolist()}.")
    moved = "The actor's loss moves the critic, too. The advantage is a weight there and should carry no gradient."
    require(not bool(_gradient(actor, V).norm() > 0), moved)
    pull = -_gradient(critic, V)
    require(bool(pull.norm() > 0), "The critic learns nothing: its loss has no gradient for `V`.")
    require(not _along(-pull, advantage), "The critic's loss drives `V` away from the returns.")
    require(_along(pull, advantage), "The critic's loss is not the squared error of `V` as a prediction of `G`.")
    plain, better = _spread(lambda lp, G, V: (-(lp * G).mean(), None)), _spread(losses)
    times = float(plain.var() / better.var())
    words = "The mean hardly changes, but the variance does: without a baseline it takes about "
    words += f"{times:.0f} times as many episodes for an equally good gradient."
    return right(words, Spread({"without a baseline": plain, "with your loss": better}, x="gradient of 8 episodes"))


def _spread(losses: Callable[..., Any], batches: int = 250, size: int = 8) -> torch.Tensor:
    """Estimate the gradient of a policy with one parameter from batches of episodes: an estimate for each batch."""
    torch.manual_seed(0)

    def actor(state: torch.Tensor) -> torch.Tensor:
        push = 2.0 * (state[..., 2] + state[..., 3])
        return torch.stack([torch.zeros_like(push), push], -1)

    steps, mine = Poles(batches * size).episodes(actor)
    G = returns_to_go(steps.reward, steps.done, 1.0)
    critic = network(1)
    optimizer = torch.optim.Adam(critic.parameters(), lr=0.03)
    for _ in range(150):
        at = torch.randint(len(G), (2000,)), torch.randint(G.shape[1], (2000,))
        error = (50 * critic(steps.observation[at]).squeeze(-1) - G[at])[mine[at]]
        optimizer.zero_grad()
        (error.square().mean() / 2500).backward()
        optimizer.step()
    with torch.no_grad():
        V = 50 * critic(steps.observation).squeeze(-1)
        # the derivative of each log-probability by the one parameter, the factor before angle and speed
        x = steps.observation[..., 2] + steps.observation[..., 3]
        score = (steps.action - torch.sigmoid(2.0 * x)) * x
    found = []
    for k in range(0, batches * size, size):
        part = (slice(None), slice(k, k + size))
        log_prob, value = (data[part][mine[part]].clone().requires_grad_() for data in (steps.log_prob, V))
        loss = losses(log_prob, G[part][mine[part]], value)[0]
        slope = torch.autograd.grad(loss, log_prob)[0] @ score[part][mine[part]]
        found.append(-slope * mine[part].sum() / size)  # per episode: batches have different numbers of steps
    return torch.stack(found)


@exercise(
    title="One step is enough",
    prompt="""
        Write `td_error(reward, V, V_next, terminated, gamma)`, the advantage after one step: what the step turned out
        to be worth, minus what the critic expected. `V` and `V_next` are the critic's values of the states before and
        after the step, and `terminated` is True where the episode terminated. All have the shape `[steps]`. The
        check trains an actor with your advantage, and a critic with the target `V + td_error`.
    """,
    stub="""
        def td_error(reward, V, V_next, terminated, gamma):
            # ~terminated is True where the episode continued
            ...
    """,
    hints=[
        "What is a step worth? Its reward plus the discounted value of the next state.",
        "After a terminated episode nothing follows, whatever value the critic gives that state.",
        "Return `reward + gamma * V_next * ~terminated - V`.",
    ],
    solution=TD_ERROR,
    wrong=[
        instead(TD_ERROR, of=" * ~terminated", put="", says="still gets the value of its next state"),
        instead(TD_ERROR, of="~terminated", put="terminated", says="the other way round"),
        instead(TD_ERROR, of="gamma * ", put="", says="`gamma` has no effect"),
        instead(TD_ERROR, of=" - V", put="", says="Subtract what the critic expected"),
        instead(TD_ERROR, of="reward + ", put="", says="The reward is missing"),
        WrongAnswer(
            "def td_error(reward, V, V_next, terminated, gamma): return V - reward - gamma * V_next * ~terminated",
            says="The sign is wrong",
        ),
        instead(TD_ERROR, of=" - V", put=" + V", says="After a step with"),
        instead(
            TD_ERROR,
            of="reward + gamma * V_next * ~terminated - V",
            put="(reward + gamma * V_next - V) * ~terminated",
            says="only the next value drops out",
        ),
        instead(
            TD_ERROR,
            of="gamma * V_next * ~terminated - V",
            put="gamma * (V_next - V) * ~terminated",
            says="to the next value alone",
        ),
        instead(
            TD_ERROR,
            of="reward + gamma * V_next * ~terminated - V",
            put="torch.where(terminated, 0.0, reward + gamma * V_next - V)",
            says="only the next value drops out",
        ),
        instead(
            TD_ERROR,
            of="~terminated",
            put="(1 - 0.5 * terminated.float())",
            says="terminated = True",
        ),
    ],
    accepted=[
        """
        def td_error(reward, V, V_next, terminated, gamma):
            return reward - V + gamma * (1 - terminated.float()) * V_next
        """,
    ],
    setup="import torch",
    seconds=60.0,
)
def one_step(td_error: Callable[..., Any]) -> Outcome:
    """Compare a few TD errors, then train with them."""
    reward, V, V_next = torch.tensor([1.0, 1.0, 3.0]), torch.tensor([5.0, 8.0, 4.0]), torch.tensor([7.0, 6.0, 10.0])
    terminated = torch.tensor([False, False, True])
    got = ask(td_error, reward, V, V_next, terminated, 0.5)
    require(isinstance(got, torch.Tensor), f"Expected a tensor, got {kind_of(got)}.")
    require(tuple(got.shape) == (3,), f"Expected shape (3,) (one number for each step), got {tuple(got.shape)}.")
    wanted = reward + 0.5 * V_next * ~terminated - V
    if not torch.allclose(got.float(), wanted):
        on, off = 0.5 * V_next, ~terminated
        known = {
            "The step that ended its episode still gets the value of its next state.": reward + on - V,
            "It is the other way round: the next state counts where the episode ended.": reward + on * terminated - V,
            "`gamma` has no effect.": reward + V_next * off - V,
            "That is what the step turned out to be worth. Subtract what the critic expected.": reward + on * off,
            "The reward is missing.": on * off - V,
            "The sign is wrong: better than expected should be positive.": -wanted,
            "Where the episode ended, only the next value drops out: the reward and `V` stay.": wanted * off,
            "`gamma` and the end belong to the next value alone, and not to `V`.": reward + 0.5 * (V_next - V) * off,
        }
        why = next((words for words, other in known.items() if torch.allclose(got.float(), other)), "")
        k = int((got.float() - wanted).abs().argmax())
        given = f"After a step with the reward {reward[k]:g}, from a state worth {V[k]:g} to one worth {V_next[k]:g}, "
        fail(why or f"{given}with terminated = {bool(terminated[k])} and `gamma` = 0.5, it gave {float(got[k]):.3g}.")
    curve, _, _ = train_actor_critic(td_error, updates=60)
    shown = Trained({"mean return of the last 20 episodes": {"with your TD error": curve}}, x="update")
    return right("It learns from pieces of 32 steps, without waiting for the end of an episode:", shown)


def train_actor_critic(
    advantage: Callable[..., Any] = _one_step,
    *,
    updates: int,
    critic_steps: int = 10,
    report: Callable[[int, float], object] | None = None,
) -> tuple[list[float], torch.nn.Module, torch.nn.Module]:
    """Train an actor and a critic on pieces of episodes with one-step advantages.

    Args:
        advantage: computes the TD error from reward, V, V_next, terminated and gamma. Default: a correct one.
        updates: number of batches of 16 x 32 steps.
        critic_steps: how many steps the critic takes on each batch.
        report: called after each batch with the number of batches and the mean return.

    Returns:
        The mean return after each batch, the actor and the critic.
    """
    torch.manual_seed(0)
    poles, actor, critic, curve = Poles(16), network(2), network(1), []
    actor_optimizer = torch.optim.Adam(actor.parameters(), lr=0.01)
    critic_optimizer = torch.optim.Adam(critic.parameters(), lr=0.03)
    for _ in range(updates):
        steps = poles.play(actor, 32)

        def error(steps: Any = steps) -> tuple[torch.Tensor, torch.Tensor]:
            with torch.no_grad():
                V, V_next = (critic(x).squeeze(-1) for x in (steps.observation, steps.next_observation))
                flat = (x.flatten() for x in (steps.reward, V, V_next, steps.terminated))
                return advantage(*flat, GAMMA).view_as(V), V

        for _ in range(critic_steps):
            A, V = error()
            loss = (critic(steps.observation).squeeze(-1) - (V + A)).square().mean()
            critic_optimizer.zero_grad()
            loss.backward()
            critic_optimizer.step()
        loss = -(log_prob_of(actor, steps) * error()[0]).mean()
        actor_optimizer.zero_grad()
        loss.backward()
        actor_optimizer.step()
        curve.append(sum(poles.returns[-20:]) / max(len(poles.returns[-20:]), 1))
        if report is not None:
            report(len(curve), curve[-1])
    return curve, actor, critic


@exercise(
    title="Between one step and all of them",
    prompt="""
        Write `gae(delta, done, gamma, lmbda)`. `delta`, of shape `[T, N]`, holds the TD errors of *N* envs over *T*
        steps. `done`, of the same shape, is True at the last step of an episode. Return the advantages, in the same
        shape: *A*(*t*) = δ(*t*) + γλ *A*(*t* + 1) within an episode. The check measures bias and variance with
        your function for many λ.
    """,
    stub="""
        def gae(delta, done, gamma, lmbda):
            # start at the last step and go back; ~done[t] is True where the episode continued
            ...
    """,
    hints=[
        "The advantage of a step depends on that of the next one. In which order do you compute them?",
        "Go back from `T - 1` to 0 and keep the advantage of the following step, which is 0 at first.",
        "Compute `following = delta[t] + gamma * lmbda * following * ~done[t]`, and store it in row `t` of the result.",
    ],
    solution=GAE,
    wrong=[
        instead(GAE, of=" * ~done[t]", put="", says="flow from one episode into the previous one"),
        instead(GAE, of="gamma * lmbda * following", put="gamma * following", says="`lmbda` has no effect"),
        instead(GAE, of="gamma * lmbda * following", put="lmbda * following", says="`gamma` has no effect"),
        instead(GAE, of="~done[t]", put="done[t]", says="the other way round"),
        instead(GAE, of="reversed(range(len(delta)))", put="range(len(delta))", says="from the first step to the last"),
        WrongAnswer("def gae(delta, done, gamma, lmbda): return delta", says="With `lmbda` = 1, for step"),
        instead(GAE, of="~done[t]", put="~done[max(t - 1, 0)]", says="one too late"),
        instead(GAE, of="~done[t]", put="~done[min(t + 1, len(done) - 1)]", says="one too early"),
        instead(GAE, of="A[t] = following", put="A[t], following = following, delta[t]", says="the next advantage"),
        instead(GAE, of="return A", put="return A.flip(0)", says="in the wrong order"),
        instead(GAE, of="return A", put="return A[0]", says="Expected shape"),
    ],
    accepted=[
        """
        def gae(delta, done, gamma, lmbda):
            A = [delta[-1]]
            for d, end in zip(delta[:-1].flip(0), done[:-1].flip(0)):
                A.insert(0, torch.where(end, d, d + gamma * lmbda * A[0]))
            return torch.stack(A)
        """,
    ],
    setup="import torch",
    seconds=60.0,
)
def gae(gae: Callable[..., Any]) -> Outcome:
    """Compare with the library's function, then measure bias and variance."""
    draw = torch.Generator().manual_seed(1)
    delta, done = torch.randn(12, 3, generator=draw), torch.rand(12, 3, generator=draw) < 0.25
    for lmbda in (1.0, 0.6, 0.0):
        got = ask(gae, delta, done, 0.8, lmbda)
        require(isinstance(got, torch.Tensor), f"Expected a tensor, got {kind_of(got)}.")
        require(got.shape == delta.shape, f"Expected shape {tuple(delta.shape)}, got {tuple(got.shape)}.")
        if not torch.allclose(got, _gae(delta, done, 0.8 * lmbda), atol=1e-5):
            _explain_gae(got, delta, done, 0.8, lmbda)
    panels = bias_and_variance(gae)
    total = panels["bias² + variance"]
    best = max(range(len(total)), key=lambda k: -total[k])
    words = (
        f"λ = 0 trusts the critic and its errors; λ = 1 trusts one episode and its luck. Here {best / 20:g} is best:"
    )
    return right(words, Trained({"error of the estimates": panels}, x="λ", first=0, every=0.05))


def _gae(delta: torch.Tensor, done: torch.Tensor, decay: float) -> torch.Tensor:
    zero = torch.zeros(*delta.shape, 1)
    args = zero.movedim(0, -2), zero.movedim(0, -2), delta.T.unsqueeze(-1), done.T.unsqueeze(-1)
    advantage, _ = generalized_advantage_estimate(1.0, decay, *args)  # the values are in delta already
    return advantage.squeeze(-1).T


def _explain_gae(got: torch.Tensor, delta: torch.Tensor, done: torch.Tensor, gamma: float, lmbda: float) -> None:
    decay, never = gamma * lmbda, torch.zeros_like(done)
    late, early = torch.cat([done[:1], done[:-1]]), torch.cat([done[1:], done[-1:]])
    wanted = _gae(delta, done, decay)
    forward = _gae(delta.flip(0), done.flip(0), decay).flip(0)
    known = {
        "Advantages flow from one episode into the previous one. Nothing may pass a step that is done.": (
            never,
            decay,
        ),
        "`lmbda` has no effect.": (done, gamma),
        "`gamma` has no effect.": (done, lmbda),
        "It is the other way round: advantages pass only where an episode ended.": (~done, decay),
        "It cuts the episodes at the wrong step, one too late.": (late, decay),
        "It cuts the episodes at the wrong step, one too early.": (early, decay),
    }
    require(
        not torch.allclose(got, forward, atol=1e-5),
        "It sums from the first step to the last, but an advantage depends on what follows the step.",
    )
    for why, (ends, factor) in known.items():
        require(not torch.allclose(got, _gae(delta, ends, factor), atol=1e-5), why)
    next_delta = torch.cat([delta[1:], torch.zeros_like(delta[:1])])
    require(
        not torch.allclose(got, delta + decay * next_delta * ~done, atol=1e-5),
        "It adds the next TD error. Add the next advantage, which holds those of all later steps.",
    )
    in_order = not torch.allclose(got, wanted.flip(0), atol=1e-5)
    require(in_order, "The rows are in the wrong order: row `t` belongs to step `t`.")
    t, n = divmod(int((got - wanted).abs().argmax()), delta.shape[1])
    fail(
        f"With `lmbda` = {lmbda:g}, for step {t} of env {n}, expected {float(wanted[t, n]):.3g}, "
        f"got {float(got[t, n]):.3g}."
    )


def bias_and_variance(gae: Callable[..., Any], states: int = 16, copies: int = 200) -> dict[str, list[float]]:
    """Compare estimates of the values of states with the means of many returns from them.

    Args:
        gae: computes advantages from delta, done, gamma and lmbda.
        states: number of states, visited by an actor early in its training.
        copies: number of episodes from each state.

    Returns:
        Squared bias, variance and their sum, each a list over lambda = 0, 0.05, ..., 1.
    """
    _, actor, critic = train_actor_critic(updates=5)
    first = Poles(states).play(actor, 20).observation[-1]
    poles = Poles(states * copies, limit=10**6)
    poles.put(first.repeat_interleave(copies, 0))
    steps = poles.play(actor, 100)
    with torch.no_grad():
        V, V_next = (critic(x).squeeze(-1) for x in (steps.observation, steps.next_observation))
    delta = _one_step(steps.reward, V, V_next, steps.terminated, GAMMA)
    true = returns_to_go(steps.reward, steps.done, GAMMA)[0].view(states, copies).mean(1)
    bias, variance = [], []
    for k in range(21):
        found = (gae(delta, steps.done, GAMMA, k / 20)[0] + V[0]).view(states, copies)
        bias.append((found.mean(1) - true).square().mean().item())
        variance.append(found.var(1).mean().item())
    total = [b + v for b, v in zip(bias, variance, strict=True)]
    return {"bias²": bias, "variance": variance, "bias² + variance": total}
