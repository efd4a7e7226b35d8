"""PyTorch's attention and transformer blocks: eager, with its fused attention, and compiled."""

import torch
import torch.nn.functional as F

import formula
import worker

HIDDEN = 4
EPSILON = 1e-6


def prepare(problem, strategy, _folder, threads):
    torch.set_num_threads(threads)
    once, outputs = passes(problem, strategy)
    return once, outputs, f"PyTorch {torch.__version__}, {threads} threads"


def load(name, shape, scale):
    return torch.from_numpy(formula.tensor(name, shape, scale))


def numbers(value):
    return value.detach().contiguous().double().numpy().ravel()


def parameters(embedding):
    """The parameters of a block by name; weights as our layers have them, [inputs, outputs]."""
    hidden = HIDDEN * embedding
    shapes = {
        "gamma1": (1, embedding),
        "beta1": (1, embedding),
        "gamma2": (1, embedding),
        "beta2": (1, embedding),
        "qkv_weight": (embedding, 3 * embedding),
        "qkv_bias": (1, 3 * embedding),
        "out_weight": (embedding, embedding),
        "out_bias": (1, embedding),
        "up_weight": (embedding, hidden),
        "up_bias": (1, hidden),
        "down_weight": (hidden, embedding),
    }
    values = {}
    for name, shape in shapes.items():
        scale = float(formula.weight_scale(shape[0])) if shape[0] > 1 else 0.5
        value = load(name, shape, scale)
        values[name] = value + 1.0 if name.startswith("gamma") else value
    # PyTorch's layers have [outputs, inputs] in memory.
    return {
        name: value.t().contiguous() if name.endswith("weight") else value[0].clone()
        for name, value in values.items()
    }


def attend(qkv, heads, fused):
    batch, tokens, numbers_of_all = qkv.shape
    head_dim = numbers_of_all // 3 // heads
    q, k, v = qkv.view(batch, tokens, 3, heads, head_dim).permute(2, 0, 3, 1, 4)
    if fused:
        attended = F.scaled_dot_product_attention(q, k, v)
    else:
        attended = torch.softmax(q @ k.transpose(-1, -2) * head_dim**-0.5, -1) @ v
    return attended.transpose(1, 2).reshape(batch, tokens, -1)


def block(x, p, heads, fused):
    embedding = (x.shape[-1],)
    y = F.layer_norm(x, embedding, p["gamma1"], p["beta1"], EPSILON)
    y = attend(F.linear(y, p["qkv_weight"], p["qkv_bias"]), heads, fused)
    x = x + F.linear(y, p["out_weight"], p["out_bias"])
    y = F.layer_norm(x, embedding, p["gamma2"], p["beta2"], EPSILON)
    return x + F.linear(F.gelu(F.linear(y, p["up_weight"], p["up_bias"])), p["down_weight"])


def passes(problem, strategy):
    tokens, heads = problem["tokens"], problem["heads"]
    embedding = heads * problem["head_dim"]
    fused = strategy != "pytorch"
    is_block = problem["part"] == "block"
    x = load("x", (1, tokens, embedding if is_block else 3 * embedding), 1.0)
    g = load("g", (1, tokens, embedding), 1.0)
    p = parameters(embedding) if is_block else {}

    def compute(x, p):
        with torch.autocast("cpu", torch.bfloat16, enabled=problem["bf16"]):
            return block(x, p, heads, fused) if is_block else attend(x, heads, fused)

    if strategy == "pytorch-compiled":
        compute = torch.compile(compute)

    if problem["pass"] == "forward":

        def once():
            with torch.no_grad():
                return compute(x, p)

        return once, lambda: {"y": numbers(once())}

    for value in (x, *p.values()):
        value.requires_grad_()

    def step():
        for value in (x, *p.values()):
            value.grad = None
        y = compute(x, p)
        (y * g).sum().backward()
        return y

    def outputs():
        results = {"y": numbers(step()), "dx": numbers(x.grad)}
        for name, value in p.items():
            is_weight = name.endswith("weight")
            results[f"d{name}"] = numbers(value.grad.t() if is_weight else value.grad)
        return results

    return step, outputs


if __name__ == "__main__":
    worker.serve(prepare)
