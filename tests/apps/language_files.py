"""Small language models as files, of parts that a test may change before they are written. Standard library only."""
import json
import random
import struct

HIDDEN, WIDE, HEADS, CONTEXT = 32, 64, 2, 64
F32 = 0  # of a GGUF tensor

U8, I8, U16, I16, U32, I32, F32_VALUE, BOOL, STRING, ARRAY, U64, I64, F64_VALUE = range(13)
_NUMBERS = {U8: "B", I8: "b", U16: "H", I16: "h", U32: "I", I32: "i", F32_VALUE: "f", BOOL: "?", U64: "Q", I64: "q",
            F64_VALUE: "d"}


def byte_alphabet():
    """The characters that stand for the bytes 0 to 255 in byte-level BPE."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(byte if byte in plain else next(others)) for byte in range(256)]


def vocabulary():
    return [*byte_alphabet(), "<|end|>", "he"]


def weights(seed=1):
    """The names, shapes (slowest dimension first) and bytes of the weights of one layer."""
    draw = random.Random(seed)
    shapes = {
        "token_embd.weight": [len(vocabulary()), HIDDEN],
        "output_norm.weight": [HIDDEN],
        "blk.0.attn_norm.weight": [HIDDEN],
        "blk.0.attn_q.weight": [HIDDEN, HIDDEN],
        "blk.0.attn_k.weight": [HIDDEN, HIDDEN],
        "blk.0.attn_v.weight": [HIDDEN, HIDDEN],
        "blk.0.attn_output.weight": [HIDDEN, HIDDEN],
        "blk.0.ffn_norm.weight": [HIDDEN],
        "blk.0.ffn_gate.weight": [WIDE, HIDDEN],
        "blk.0.ffn_up.weight": [WIDE, HIDDEN],
        "blk.0.ffn_down.weight": [HIDDEN, WIDE],
    }
    made = {}
    for name, shape in shapes.items():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        values = [1.0 if len(shape) == 1 else draw.uniform(-0.3, 0.3) for _ in range(count)]
        made[name] = (shape, struct.pack(f"<{count}f", *values))
    return made


# --- GGUF: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md

def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def value(kind, content):
    """A metadata value behind its type; the content of an array is (type, list)."""
    if kind == STRING:
        return text(content)
    if kind == ARRAY:
        element, elements = content
        return struct.pack("<IQ", element, len(elements)) + b"".join(value(element, each) for each in elements)
    return struct.pack("<" + _NUMBERS[kind], content)


def metadata():
    """Key → (type, content)."""
    tokens = vocabulary()
    return {
        "general.architecture": (STRING, "llama"),
        "general.alignment": (U32, 32),
        "llama.block_count": (U32, 1),
        "llama.context_length": (U32, CONTEXT),
        "llama.embedding_length": (U32, HIDDEN),
        "llama.feed_forward_length": (U32, WIDE),
        "llama.attention.head_count": (U32, HEADS),
        "llama.attention.head_count_kv": (U32, HEADS),
        "llama.attention.key_length": (U32, HIDDEN // HEADS),
        "llama.attention.value_length": (U32, HIDDEN // HEADS),
        "llama.attention.layer_norm_rms_epsilon": (F32_VALUE, 1e-5),
        "llama.rope.dimension_count": (U32, HIDDEN // HEADS),
        "llama.rope.freq_base": (F32_VALUE, 10000.0),
        "tokenizer.ggml.model": (STRING, "gpt2"),
        "tokenizer.ggml.pre": (STRING, "gpt-2"),
        "tokenizer.ggml.tokens": (ARRAY, (STRING, tokens)),
        "tokenizer.ggml.token_type": (ARRAY, (I32, [1] * 256 + [3, 1])),
        "tokenizer.ggml.merges": (ARRAY, (STRING, ["h e"])),
        "tokenizer.ggml.bos_token_id": (U32, 256),
        "tokenizer.ggml.eos_token_id": (U32, 256),
        "tokenizer.ggml.add_bos_token": (BOOL, False),
        "tokenizer.chat_template": (STRING, "{% for m in messages %}{{ m.content }}{% endfor %}"),
    }


def gguf(values=None, tensors=None, places=None, counts=None):
    """A GGUF file. `places`: name → (dimensions, fastest first, type, offset) in place of the right ones; `counts`: of
    tensors and of metadata values."""
    values = metadata() if values is None else values
    tensors = weights() if tensors is None else tensors
    head = b"".join(text(key) + struct.pack("<I", kind) + (content if isinstance(content, bytes) else
                                                           value(kind, content))
                    for key, (kind, content) in values.items())
    listed, data = b"", b""
    for name, (shape, contents) in tensors.items():
        dimensions, kind, offset = (places or {}).get(name, (shape[::-1], F32, len(data)))
        listed += text(name) + struct.pack(f"<I{len(dimensions)}QIQ", len(dimensions), *dimensions, kind, offset)
        data += contents + bytes(-len(contents) % 32)
    head = b"GGUF" + struct.pack("<IQQ", 3, *(counts or (len(tensors), len(values)))) + head + listed
    return head + bytes(-len(head) % 32) + data


# --- a folder with safetensors files, as Hugging Face's transformers writes it

_NAMES = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "blk.0.attn_norm.weight": "model.layers.0.input_layernorm.weight",
    "blk.0.attn_q.weight": "model.layers.0.self_attn.q_proj.weight",
    "blk.0.attn_k.weight": "model.layers.0.self_attn.k_proj.weight",
    "blk.0.attn_v.weight": "model.layers.0.self_attn.v_proj.weight",
    "blk.0.attn_output.weight": "model.layers.0.self_attn.o_proj.weight",
    "blk.0.ffn_norm.weight": "model.layers.0.post_attention_layernorm.weight",
    "blk.0.ffn_gate.weight": "model.layers.0.mlp.gate_proj.weight",
    "blk.0.ffn_up.weight": "model.layers.0.mlp.up_proj.weight",
    "blk.0.ffn_down.weight": "model.layers.0.mlp.down_proj.weight",
}


def config():
    return {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": HIDDEN,
            "intermediate_size": WIDE, "num_hidden_layers": 1, "num_attention_heads": HEADS,
            "num_key_value_heads": HEADS, "head_dim": HIDDEN // HEADS, "max_position_embeddings": CONTEXT,
            "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "vocab_size": len(vocabulary()), "hidden_act": "silu",
            "tie_word_embeddings": True, "bos_token_id": 256, "eos_token_id": 256}


def tokenizer():
    tokens = vocabulary()
    return {"version": "1.0",
            "added_tokens": [{"id": 256, "content": "<|end|>", "special": True, "normalized": False, "lstrip": False,
                              "rstrip": False, "single_word": False}],
            "normalizer": None,
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True,
                              "trim_offsets": True},
            "post_processor": None,
            "decoder": {"type": "ByteLevel", "add_prefix_space": True, "use_regex": True, "trim_offsets": True},
            "model": {"type": "BPE", "vocab": {token: i for i, token in enumerate(tokens)}, "merges": ["h e"]}}


def header():
    """The header of model.safetensors as a dictionary, and the data behind it."""
    entries, data = {}, b""
    for name, (shape, contents) in weights().items():
        entries[_NAMES[name]] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(contents)]}
        data += contents
    return entries, data


def safetensors(entries, data, length=None):
    """A safetensors file; `length`: of the header, in place of the right one. `entries` may be its text."""
    head = entries if isinstance(entries, bytes) else json.dumps(entries).encode()
    return struct.pack("<Q", len(head) if length is None else length) + head + data


def write_folder(folder, file=None, settings=None, tokens=None):
    """Writes a model with safetensors files into the folder; what is given stands in place of the right content."""
    folder.mkdir(exist_ok=True)
    (folder / "model.safetensors").write_bytes(safetensors(*header()) if file is None else file)
    (folder / "config.json").write_text(json.dumps(config() if settings is None else settings))
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer() if tokens is None else tokens))
    return folder
