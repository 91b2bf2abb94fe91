"""Sorting rows, the largest of a row, radix sort, sampling."""

import workbench.language as tl


def row_sort(x_ptr, out_ptr, stride, n_cols, DESCENDING: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    pad = -float("inf") if DESCENDING else float("inf")
    x = tl.load(x_ptr + row * stride + cols, mask=mask, other=pad)
    tl.store(out_ptr + row * stride + cols, tl.sort(x, descending=DESCENDING), mask=mask)


def ordered_bits(x):
    """Integers that are ordered as the floats are."""
    bits = x.to(tl.int32, bitcast=True)
    return tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)


def row_argsort(x_ptr, out_ptr, index_ptr, stride, n_cols, BLOCK: tl.constexpr):
    """Stable: the place is the lower half of the key. Pads come last, even after infinity."""
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * stride + cols, mask=mask, other=0.0).to(tl.float32)
    high = tl.where(mask, ordered_bits(x), 0x7FFFFFFF)
    key = (high.to(tl.int64) << 32) | cols.to(tl.int64)
    key = tl.sort(key)
    bits = (key >> 32).to(tl.int32)
    bits = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    tl.store(out_ptr + row * stride + cols, bits.to(tl.float32, bitcast=True), mask=mask)
    tl.store(index_ptr + row * stride + cols, key.to(tl.int32), mask=mask)


def row_topk(x_ptr, value_ptr, index_ptr, stride, n_cols, K: tl.constexpr, BLOCK: tl.constexpr):
    """The K largest with their places; of equal ones the first."""
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * stride + cols, mask=mask, other=0.0).to(tl.float32)
    high = tl.where(mask, ordered_bits(x), -0x80000000)
    key = (high.to(tl.int64) << 32) | (BLOCK - 1 - cols).to(tl.int64)
    best = tl.topk(key, K)
    bits = (best >> 32).to(tl.int32)
    bits = tl.where(bits < 0, bits ^ 0x7FFFFFFF, bits)
    k = tl.arange(0, K)
    tl.store(value_ptr + row * K + k, bits.to(tl.float32, bitcast=True))
    tl.store(index_ptr + row * K + k, BLOCK - 1 - (best & 0xFFFF).to(tl.int32))


def topk_by_rounds(
    x_ptr, value_ptr, index_ptr, stride, n_cols, K: tl.constexpr, BLOCK: tl.constexpr
):
    """A small K: take the largest and strike it out, K times."""
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + cols, mask=cols < n_cols, other=-float("inf"))
    x = x.to(tl.float32)
    for k in tl.static_range(K):
        place = tl.argmax(x, axis=0)
        tl.store(value_ptr + row * K + k, tl.max(x, axis=0))
        tl.store(index_ptr + row * K + k, place)
        x = tl.where(cols == place, -float("inf"), x)


def bitonic_pairs(key_ptr, value_ptr, n, LOG: tl.constexpr):
    """Keys with values of their own, sorted in place by a network of exchanges."""
    SIZE: tl.constexpr = 1 << LOG
    i = tl.arange(0, SIZE)
    mask = i < n
    key = tl.load(key_ptr + i, mask=mask, other=0x7FFFFFFF)
    value = tl.load(value_ptr + i, mask=mask, other=0)
    for stage in tl.static_range(1, LOG + 1):
        for step in tl.static_range(stage):
            partner = i ^ (1 << (stage - 1 - step))
            other_key = tl.gather(key, partner, 0)
            other_value = tl.gather(value, partner, 0)
            upward = (i & (1 << stage)) == 0
            lower = i < partner
            wants_small = upward == lower
            smaller = (other_key < key) | ((other_key == key) & (partner < i))
            exchange = (wants_small & smaller) | ((wants_small == 0) & (smaller == 0))
            key = tl.where(exchange, other_key, key)
            value = tl.where(exchange, other_value, value)
    tl.store(key_ptr + i, key, mask=mask)
    tl.store(value_ptr + i, value, mask=mask)


def radix_count(key_ptr, count_ptr, n, shift, n_blocks, DIGITS: tl.constexpr, BLOCK: tl.constexpr):
    """How often each digit occurs in each block: counts are stored digit by digit."""
    pid = tl.program_id(0)
    offsets = pid * BLOCK + tl.arange(0, BLOCK)
    key = tl.load(key_ptr + offsets, mask=offsets < n, other=0)
    digit = ((key >> shift) & (DIGITS - 1)).to(tl.int32)
    counts = tl.histogram(digit, DIGITS, mask=offsets < n)
    tl.store(count_ptr + tl.arange(0, DIGITS) * n_blocks + pid, counts)


def radix_offsets(count_ptr, n, BLOCK: tl.constexpr):
    """Exclusive sums of all counts, in place, by one program."""
    carried = 0
    for start in range(0, n, BLOCK):
        offsets = start + tl.arange(0, BLOCK)
        counts = tl.load(count_ptr + offsets, mask=offsets < n, other=0)
        tl.store(count_ptr + offsets, carried + tl.cumsum(counts, 0) - counts, mask=offsets < n)
        carried += tl.sum(counts, 0)


def radix_scatter(
    key_ptr, out_ptr, count_ptr, n, shift, n_blocks, DIGITS: tl.constexpr, BLOCK: tl.constexpr
):
    """Put each key where its digit's turn is; keys of one digit keep their order."""
    pid = tl.program_id(0)
    offsets = pid * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    key = tl.load(key_ptr + offsets, mask=mask, other=0)
    digit = ((key >> shift) & (DIGITS - 1)).to(tl.int32)
    own = ((digit[:, None] == tl.arange(0, DIGITS)[None, :]) & mask[:, None]).to(tl.int32)
    rank = tl.sum(own * (tl.cumsum(own, axis=0) - 1), axis=1)
    start = tl.load(count_ptr + digit * n_blocks + pid, mask=mask, other=0)
    tl.store(out_ptr + start + rank, key, mask=mask)


def gumbel_sample(logit_ptr, out_ptr, stride, n_cols, temperature, seed, BLOCK: tl.constexpr):
    """Draw a token by the largest logit with noise."""
    row = tl.program_id(0)
    best = -float("inf")
    token = 0
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        mask = cols < n_cols
        logit = tl.load(logit_ptr + row * stride + cols, mask=mask, other=0.0).to(tl.float32)
        u = tl.maximum(tl.rand(seed, row * n_cols + cols), 1e-7)
        noisy = tl.where(mask, logit / temperature - tl.log(-tl.log(u)), -float("inf"))
        top, place = tl.max(noisy, axis=0, return_indices=True)
        if top > best:
            best = top
            token = start + place
    tl.store(out_ptr + row, token)


def nucleus_sample(
    logit_ptr, uniform_ptr, kept_ptr, place_ptr, stride, n_cols, top_p, BLOCK: tl.constexpr
):
    """Keep the most likely tokens up to a mass of top_p, and draw one by its rank."""
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(logit_ptr + row * stride + cols, mask=mask, other=-float("inf")).to(tl.float32)
    x = tl.exp(x - tl.max(x, axis=0))
    p = tl.sort(x / tl.sum(x, axis=0), descending=True)
    mass = tl.cumsum(p, axis=0)
    keep = (mass - p < top_p) & mask
    limit = tl.load(uniform_ptr + row) * tl.sum(tl.where(keep, p, 0.0), axis=0)
    tl.store(kept_ptr + row, tl.sum(keep.to(tl.int32), axis=0))
    tl.store(place_ptr + row, tl.sum((keep & (mass < limit)).to(tl.int32), axis=0))
