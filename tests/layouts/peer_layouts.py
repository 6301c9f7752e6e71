"""Random layouts as texts that both implementations of the language understand."""

import random


def factors(draw: random.Random, bits: int, rank: int, least: int = 0) -> list[int]:
    """A random product of `2**bits` as `rank` powers of two."""
    sizes = [least] * rank
    for _ in range(bits):
        sizes[draw.randrange(rank)] += 1
    return [1 << size for size in sizes]


def permutation(draw: random.Random, rank: int) -> list[int]:
    return draw.sample(range(rank), rank)


def cga(draw: random.Random, rank: int, bits: int | None = None) -> list[list[int]]:
    """CTA bits, each the next one of some dimension or a copy."""
    counts = [0] * rank
    bases = []
    for _ in range(draw.choice([0, 0, 0, 1, 2]) if bits is None else bits):
        axis = draw.randrange(rank + 1)
        basis = [0] * rank
        if axis < rank:
            basis[axis] = 1 << counts[axis]
            counts[axis] += 1
        bases.append(basis)
    return bases


def blocked(draw: random.Random, rank: int | None = None) -> tuple[str, list[int]]:
    rank = rank or draw.randint(1, 3)
    lists = [factors(draw, draw.randint(0, 4), rank), factors(draw, draw.choice([5, 6]), rank)]
    lists += [factors(draw, draw.randint(0, 3), rank), permutation(draw, rank), cga(draw, rank)]
    return f"BlockedLayout({', '.join(map(str, lists))})", factors(draw, draw.randint(0, 13), rank)


def blocked_operand(draw: random.Random) -> tuple[str, list[int]]:
    parent, shape = blocked(draw, draw.choice([2, 2, 3]))
    return f"DotOperandLayout({draw.randint(0, 1)}, {parent}, 0)", shape


def nvidia(draw: random.Random, version: int | None = None) -> tuple[str, list[int]]:
    version = version or draw.choice([2, 3])
    rank = 2 if version == 3 else draw.choice([2, 2, 3])
    warps = factors(draw, draw.randint(0, 3), rank)
    if version == 3:
        warps = [4 * warps[0], warps[1]]
    instruction = [16, 8 << draw.randint(0, 5), 16] if version == 3 else [1] * (rank - 2) + [16, 8]
    text = f"NVMMADistributedLayout([{version}, 0], {warps}, {instruction}, {cga(draw, rank)})"
    return text, factors(draw, draw.randint(0, 14), rank)


def nvidia_operand(draw: random.Random) -> tuple[str, list[int]]:
    version = draw.choice([2, 2, 3])
    parent, shape = nvidia(draw, version)
    index = 0 if version == 3 else draw.randint(0, 1)
    return f"DotOperandLayout({index}, {parent}, {draw.choice([1, 2, 4, 8])})", shape


def mfma(draw: random.Random, clusters: bool = True) -> tuple[str, list[int]]:
    rank = draw.choice([2, 2, 3])
    shape, transposed = draw.choice([([32, 32], None), ([16, 16], None), ([4, 64], None), ([64, 4], True)])
    transposed = draw.choice([False, True]) if transposed is None else transposed
    tiles = [1] * (rank - 2) + factors(draw, draw.choice([0, 0, 1, 2]), 2)
    warps = factors(draw, draw.randint(0, 3), rank)
    instruction = [*shape, draw.choice([4, 8, 16, 32])]
    fields = f"{draw.randint(1, 4)}, {instruction}, {transposed}, {warps}, {draw.choice([32, 32, 64])}, {tiles}"
    return f"AMDMFMALayout({fields}, {cga(draw, rank, None if clusters else 0)})", factors(
        draw, draw.randint(0, 14), rank
    )


def wmma(draw: random.Random) -> tuple[str, list[int]]:
    rank = draw.choice([2, 2, 3])
    version = draw.randint(1, 3)
    shape = [16, 16, draw.choice([4, 16, 32, 64, 128])]
    if version == 3 and draw.random() < 0.3:
        shape[0] = 32
    counts, bases = [0] * rank, ([], [])
    for side in [1] * draw.randint(0, 2) + [0] * draw.randint(0, 3):
        axis = draw.randrange(rank)
        bases[side].append([1 << counts[axis] if index == axis else 0 for index in range(rank)])
        counts[axis] += 1
    fields = f"{version}, {draw.choice([False, True])}, {bases[0]}, {bases[1]}, {shape}"
    text = f"AMDWMMALayout({fields}, {cga(draw, rank)}, {rank})"
    return text, factors(draw, draw.randint(0, 14), rank)


def amd_operand(draw: random.Random) -> tuple[str, list[int]]:
    # No target with MFMA has clusters; there the two implementations split K differently.
    parent, shape = mfma(draw, clusters=False) if draw.random() < 0.5 else wmma(draw)
    return f"DotOperandLayout({draw.randint(0, 1)}, {parent}, {draw.choice([1, 2, 4, 8, 16, 32])})", shape


def sliced(draw: random.Random) -> tuple[str, list[int]]:
    parent, shape = draw.choice([blocked, nvidia, nvidia_operand, mfma, wmma, amd_operand, blocked_operand])(draw)
    if len(shape) == 1:
        return parent, shape
    axis = draw.randrange(len(shape))
    return f"SliceLayout({axis}, {parent})", shape[:axis] + shape[axis + 1 :]


def swizzled(draw: random.Random) -> tuple[str, list[int]]:
    rank = draw.randint(1, 4)
    fields = [1 << draw.randint(0, 4) for _ in range(3)]
    text = f"SwizzledSharedLayout({', '.join(map(str, fields))}, {permutation(draw, rank)}, {cga(draw, rank)})"
    return text, factors(draw, draw.randint(0, 13), rank)


def nvmma_shared(draw: random.Random) -> tuple[str, list[int]]:
    rank = draw.choice([1, 2, 2, 2, 3, 4, 5])
    swizzle, bits = draw.choice([0, 32, 64, 128]) if rank > 1 else 0, draw.choice([8, 16, 32])
    padded = swizzle == 128 and bits == 8 and draw.random() < 0.3
    transposed = draw.choice([False, True]) if swizzle or rank == 2 else False
    text = f"NVMMASharedLayout({swizzle}, {bits}, {rank}, {transposed}, {padded}, {cga(draw, rank)})"
    shape = factors(draw, draw.randint(0, 6), rank)
    fast = 0 if transposed else rank - 1
    shape[fast] = max(shape[fast], 1 << draw.randint(5, 9))
    return text, shape


def partitioned(draw: random.Random) -> tuple[str, list[int]]:
    inner, shape = swizzled(draw)
    axis = draw.randrange(len(shape))
    counts = [1 << draw.randint(0, 2) for _ in range(2)]
    whole = [extent * (counts[0] * counts[1] if index == axis else 1) for index, extent in enumerate(shape)]
    return f"PartitionedSharedLayout({counts[0]}, {counts[1]}, {axis}, {inner})", whole


def tensor_memory(draw: random.Random) -> tuple[str, list[int]]:
    rows = draw.choice([64, 128])
    bases = draw.choice([[], [], [[1, 0]], [[0, 1]], [[1, 0], [0, 1]], [[1, 0], [2, 0]]])
    both = bool(bases) and bases[0] == [1, 0] and draw.choice([False, True])
    block = (rows, 1 << draw.randint(3, 8))
    padded = draw.random() < 0.2
    text = f"TensorMemoryLayout({block}, {1 if padded else draw.choice([1, 2])}, {bases}, {both}, {padded})"
    return text, [rows << draw.randint(0, 2), 1 << draw.randint(3, 9)]


def scales(draw: random.Random) -> tuple[str, list[int]]:
    return f"TensorMemoryScalesLayout({cga(draw, 2)})", [1 << draw.randint(0, 10), 1 << draw.randint(0, 6)]


KINDS = {
    "blocked": blocked,
    "blocked operand": blocked_operand,
    "nvidia": nvidia,
    "nvidia operand": nvidia_operand,
    "mfma": mfma,
    "wmma": wmma,
    "amd operand": amd_operand,
    "slice": sliced,
    "swizzled": swizzled,
    "nvmma shared": nvmma_shared,
    "partitioned": partitioned,
    "tensor memory": tensor_memory,
    "scales": scales,
}

NVIDIA_KINDS = (blocked, nvidia, nvidia_operand, blocked_operand)


def shared_memory(draw: random.Random, rank: int, bits: int) -> str:
    """A layout for elements of so many bits whose swizzle moves whole 16-byte groups, if any."""
    if rank == 2 and draw.random() < 0.5:
        return f"NVMMASharedLayout({draw.choice([0, 32, 64, 128])}, {bits}, 2, {draw.choice([False, True])})"
    vector, phases = draw.choice([(1, 1), (128 // bits, 1 << draw.randint(0, 4))])
    return f"SwizzledSharedLayout({vector}, {1 << draw.randint(0, 2)}, {phases}, {permutation(draw, rank)})"


def scaled_operand(draw: random.Random) -> tuple[str, list[int], int]:
    """An operand of a block-scaled product, the shape of its scales, and how many elements share one."""
    index, shape = draw.randint(0, 1), [1 << draw.randint(4, 9), 1 << draw.randint(1, 5)]
    if draw.random() < 0.5:
        instruction = draw.choice([[16, 16, 128], [32, 32, 64]])
        warps, tiles = factors(draw, draw.randint(0, 3), 2), factors(draw, draw.randint(0, 2), 2)
        return f"DotOperandLayout({index}, AMDMFMALayout(4, {instruction}, True, {warps}, 32, {tiles}), 16)", shape, 32
    warps, registers = draw.choice([([[0, 1], [1, 0]], [[0, 2], [2, 0]]), ([[1, 0], [2, 0]], []), ([[0, 1]], [[1, 0]])])
    instruction = draw.choice([[16, 16, 128], [32, 16, 128]])
    parent = f"AMDWMMALayout(3, {draw.choice([False, True])}, {warps}, {registers}, {instruction})"
    return f"DotOperandLayout({index}, {parent}, 16)", shape, draw.choice([16, 32])
