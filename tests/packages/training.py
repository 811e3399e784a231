"""Training by packages: transformers' Trainer, peft, accelerate, lightning; and torchmetrics."""

from __future__ import annotations

import os
import tempfile

from cases import case, decoder, fill, numbers, tensor, tokens


@case("transformers")
def trainer():
    """Ten steps of transformers' Trainer; order and weights are fixed, without dropout."""
    import torch
    import transformers

    model = decoder("llama")
    rows = tokens("trainer", 99, 16, 8)
    data = [{"input_ids": row, "labels": row} for row in rows]
    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            output_dir=folder, max_steps=10, per_device_train_batch_size=4, learning_rate=1e-2, lr_scheduler_type="cosine",
            warmup_steps=2, logging_steps=1, report_to=[], save_steps=5, eval_strategy="steps", eval_steps=5, use_cpu=True,
            gradient_accumulation_steps=2, disable_tqdm=True, weight_decay=0.1,
        )  # fmt: skip

        class InOrder(transformers.Trainer):
            def _get_train_sampler(self, *_):
                return torch.utils.data.SequentialSampler(self.train_dataset)

        job = InOrder(model=model, args=arguments, train_dataset=data, eval_dataset=data[:4])
        job.train()
        history = job.state.log_history
        again = InOrder(model=decoder("llama"), args=arguments, train_dataset=data, eval_dataset=data[:4])
        again.train(resume_from_checkpoint=os.path.join(folder, "checkpoint-5"))
        resumed = [entry["loss"] for entry in again.state.log_history if "loss" in entry]
    return {
        "losses": [entry["loss"] for entry in history if "loss" in entry],
        "norms": [entry["grad_norm"] for entry in history if "grad_norm" in entry],
        "evaluation": [entry["eval_loss"] for entry in history if "eval_loss" in entry],
        "resumed": resumed,
    }


@case("transformers")
def saved_in_pieces():
    """save_pretrained in several safetensors files, and from_pretrained of them in bfloat16."""
    import torch
    import transformers

    with tempfile.TemporaryDirectory() as folder:
        decoder("llama").save_pretrained(folder, max_shard_size="20KB")
        count = sum(name.endswith(".safetensors") for name in os.listdir(folder))
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
    return {"files": count, "bfloat16 logits": model(tokens("pieces", 99, 1, 5)).logits}


def trained(model, steps: int = 4) -> list[float]:
    import torch

    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], 1e-2)
    ids, found = tokens("trained", 99, 2, 6), []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


@case("peft")
def adapters():
    """Training with several kinds of adapters; merging and saving one."""
    import peft
    import torch

    ids = tokens("adapters", 99, 1, 6)
    layers = ["q_proj", "v_proj"]
    kinds = {
        "lora": peft.LoraConfig(r=4, lora_alpha=8, target_modules=layers, task_type="CAUSAL_LM"),
        "dora": peft.LoraConfig(r=4, lora_alpha=8, target_modules=layers, use_dora=True, task_type="CAUSAL_LM"),
        "ia3": peft.IA3Config(target_modules=layers, feedforward_modules=[], task_type="CAUSAL_LM"),
        "prompts": peft.PromptTuningConfig(num_virtual_tokens=3, task_type="CAUSAL_LM"),
        "loha": peft.LoHaConfig(r=2, alpha=4, target_modules=layers),
        "lora of embeddings": peft.LoraConfig(r=2, target_modules=["embed_tokens"], task_type="CAUSAL_LM"),
    }
    found = {}
    for name, config in kinds.items():
        model = peft.get_peft_model(decoder("llama"), config)
        with torch.no_grad():
            for key, parameter in model.named_parameters():
                if parameter.requires_grad and "ia3" not in name and "magnitude" not in key:
                    parameter.copy_(torch.from_numpy(0.1 * numbers(key, *parameter.shape)))
        found[name] = trained(model)
        if name == "lora":
            before = model(input_ids=ids).logits
            with tempfile.TemporaryDirectory() as folder:
                model.save_pretrained(folder)
                loaded = peft.PeftModel.from_pretrained(decoder("llama"), folder)
                found["loaded is the same"] = torch.allclose(loaded(input_ids=ids).logits, before, atol=1e-5)
            found["merged is the same"] = torch.allclose(model.merge_and_unload()(input_ids=ids).logits, before, atol=1e-4)
    return found


@case("accelerate")
def accelerated():
    """A loop with Accelerator: accumulation, clipping, gathering, saved and loaded state."""
    import accelerate
    import torch

    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2)
    model = decoder("llama")
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
    loader = torch.utils.data.DataLoader(tokens("accelerated", 99, 12, 6), batch_size=3)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer)
    model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
    found = []
    for _ in range(2):
        for ids in loader:
            with accelerator.accumulate(model):
                loss = model(input_ids=ids, labels=ids).loss
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
            found.append(accelerator.gather(loss).mean().item())
    with tempfile.TemporaryDirectory() as folder:
        accelerator.save_state(folder)
        before = [p.detach().clone() for p in model.parameters()]
        with torch.no_grad():
            for p in model.parameters():
                p.zero_()
        accelerator.load_state(folder)
    with accelerate.init_empty_weights():
        empty = torch.nn.Linear(1000, 1000)
    return {
        "losses": found,
        "loaded": all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True)),
        "empty weights": empty.weight.device.type == "meta",
    }


@case("lightning")
def lightning_fit():
    """Lightning's Trainer: training, validation, a checkpoint and going on from it."""
    import logging
    import warnings

    import lightning
    import torch

    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

    class Net(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.save_hyperparameters()
            self.net = fill(torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)))
            self.seen = []

        def training_step(self, batch, _):
            loss = torch.nn.functional.mse_loss(self.net(batch[0]), batch[1])
            self.log("loss", loss)
            self.seen.append(loss.item())
            return loss

        def validation_step(self, batch, _):
            self.log("valid", torch.nn.functional.mse_loss(self.net(batch[0]), batch[1]), on_epoch=True)

        def configure_optimizers(self):
            optimizer = torch.optim.Adam(self.parameters(), 1e-2)
            return {"optimizer": optimizer, "lr_scheduler": torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)}

    x = tensor("lightning", 12, 4)
    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True)), batch_size=4)
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu", "devices": 1}
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = Net()
        keep = lightning.pytorch.callbacks.ModelCheckpoint(dirpath=folder, monitor="valid", filename="best")
        first = lightning.Trainer(max_epochs=2, callbacks=[keep], gradient_clip_val=1.0, default_root_dir=folder, **quiet)
        first.fit(model, data, data)
        valid = first.callback_metrics["valid"].item()
        again = Net.load_from_checkpoint(keep.best_model_path)
        more = lightning.Trainer(max_epochs=4, default_root_dir=folder, enable_checkpointing=False, **quiet)
        more.fit(again, data, data, ckpt_path=keep.best_model_path, weights_only=False)
    return {"losses": model.seen, "valid": valid, "went on": again.seen}


@case("torchmetrics")
def metrics():
    import torch
    import torchmetrics
    from torchmetrics import functional as F

    scores = tensor("scores", 40, 4).softmax(1)
    labels = tokens("labels", 7, 40) - 3
    found = {}
    for name in (
        "Accuracy", "Precision", "Recall", "F1Score", "AUROC", "AveragePrecision", "ConfusionMatrix", "CohenKappa",
        "MatthewsCorrCoef", "CalibrationError",
    ):
        metric = getattr(torchmetrics, name)(task="multiclass", num_classes=4)
        for part in (slice(0, 25), slice(25, 40)):
            metric.update(scores[part], labels[part])
        found[name] = metric.compute()
    a, b = tensor("a", 30), tensor("b", 30)
    for name in (
        "MeanSquaredError", "MeanAbsoluteError", "R2Score", "PearsonCorrCoef", "SpearmanCorrCoef",
        "ExplainedVariance", "KendallRankCorrCoef",
    ):
        metric = getattr(torchmetrics, name)()
        metric.update(a, b)
        found[name] = metric.compute()
    images = tensor("images", 2, 3, 32, 32).sigmoid(), tensor("more images", 2, 3, 32, 32).sigmoid()
    found["ssim"] = F.structural_similarity_index_measure(*images, data_range=1.0)
    found["psnr"] = F.peak_signal_noise_ratio(*images, data_range=1.0)
    found["retrieval"] = F.retrieval_normalized_dcg(a[:8], torch.tensor([1, 0, 1, 0, 0, 1, 0, 0]))
    found["perplexity"] = F.text.perplexity(tensor("logits", 2, 5, 9), tokens("targets", 9, 2, 5))
    found["edit distance"] = F.text.word_error_rate(["the cat sat"], ["the cat sits"])
    both = torchmetrics.MetricCollection([torchmetrics.MeanMetric(), torchmetrics.MaxMetric()])
    both.update(a)
    return {**found, **both.compute()}
