"""Networks for images: transformers, timm, torchvision, diffusers, ultralytics."""

from __future__ import annotations

import os
import tempfile

import numpy as np
from cases import TEXT, WORDS, case, fill, numbers, tensor, text_folder, tokens

IMAGE = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48, "image_size": 32, "patch_size": 8}


@case("transformers")
def vit():
    import transformers

    model = fill(transformers.ViTForImageClassification(transformers.ViTConfig(**IMAGE, num_labels=5)))
    return {"logits": model(pixel_values=tensor("vit", 2, 3, 32, 32)).logits}


@case("transformers")
def dinov2():
    import transformers

    model = fill(transformers.Dinov2Model(transformers.Dinov2Config(**{k: v for k, v in IMAGE.items() if k != "intermediate_size"})))
    return {"output": model(pixel_values=tensor("dino", 2, 3, 48, 48)).last_hidden_state}


@case("transformers")
def clip():
    import transformers

    text = {**TEXT, "max_position_embeddings": 16, "eos_token_id": 2}
    config = transformers.CLIPConfig(text_config=text, vision_config=IMAGE, projection_dim=16)
    output = fill(transformers.CLIPModel(config))(
        input_ids=tokens("clip", 99, 3, 6), pixel_values=tensor("clip", 2, 3, 32, 32), return_loss=False,
    )  # fmt: skip
    return {"logits": output.logits_per_image, "text": output.text_embeds, "images": output.image_embeds}


@case("transformers")
def siglip():
    import transformers

    text = {**TEXT, "max_position_embeddings": 16}
    output = fill(transformers.SiglipModel(transformers.SiglipConfig(text_config=text, vision_config=IMAGE)))(
        input_ids=tokens("siglip", 99, 3, 16), pixel_values=tensor("siglip", 2, 3, 32, 32)
    )
    return {"logits": output.logits_per_image}


@case("transformers")
def segformer():
    import transformers

    config = transformers.SegformerConfig(
        num_encoder_blocks=2, depths=[1, 1], sr_ratios=[2, 1], hidden_sizes=[16, 32], patch_sizes=[7, 3], strides=[4, 2],
        num_attention_heads=[1, 2], mlp_ratios=[2, 2], decoder_hidden_size=16, num_labels=3,
    )  # fmt: skip
    return {"logits": fill(transformers.SegformerForSemanticSegmentation(config))(pixel_values=tensor("seg", 1, 3, 32, 32)).logits}


@case("transformers")
def yolos():
    import transformers

    config = transformers.YolosConfig(**{**IMAGE, "image_size": [32, 32]}, num_detection_tokens=4)
    output = fill(transformers.YolosForObjectDetection(config))(pixel_values=tensor("yolos", 1, 3, 32, 32))
    return {"logits": output.logits, "boxes": output.pred_boxes}


# ---- timm, torchvision


def image_model(name: str, size: int = 64, **options) -> dict:
    import timm
    import torch

    model = fill(timm.create_model(name, num_classes=5, **options))
    x = tensor(name, 2, 3, size, size)
    with torch.no_grad():
        found = {"logits": model(x)}
    model.train()
    loss = torch.nn.functional.cross_entropy(model(x), torch.tensor([1, 3]))
    loss.backward()
    model.eval()
    return {**found, "loss": loss, "first gradient": next(p.grad for p in model.parameters() if p.grad is not None).norm()}


@case("timm")
def timm_resnet():
    return image_model("resnet18")


@case("timm")
def timm_vit():
    return image_model("vit_tiny_patch16_224", img_size=64, depth=2)


@case("timm")
def timm_convnext():
    return image_model("convnext_atto", depths=(1, 1, 1, 1), dims=(8, 16, 24, 32))


@case("timm")
def timm_efficientnet():
    return {"logits": image_model("efficientnet_b0", drop_rate=0.0)["logits"]}


@case("timm")
def timm_mobilenet():
    return {"logits": image_model("mobilenetv3_small_050", drop_rate=0.0)["logits"]}


@case("timm")
def timm_swin():
    return image_model(
        "swin_tiny_patch4_window7_224", img_size=56, window_size=7, depths=(1, 1), num_heads=(2, 4), embed_dim=16,
        drop_path_rate=0.0, size=56,
    )  # fmt: skip


@case("timm")
def timm_tools():
    """Features of several depths, an optimizer and a schedule of timm's, an average of weights."""
    import timm
    import timm.optim
    import timm.scheduler
    import timm.utils
    import torch

    model = fill(timm.create_model("resnet10t", features_only=True))
    x = tensor("timm tools", 1, 3, 64, 64)
    maps = model(x)
    small = fill(timm.create_model("vit_tiny_patch16_224", img_size=32, depth=1, num_classes=3))
    average = timm.utils.ModelEmaV2(small, decay=0.9)
    optimizer = timm.optim.create_optimizer_v2(small, "lamb", lr=1e-2, weight_decay=0.1)
    schedule = timm.scheduler.CosineLRScheduler(optimizer, t_initial=4, warmup_t=1, warmup_lr_init=1e-3)
    for step in range(3):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(small(x[..., :32, :32]), torch.tensor([1])).backward()
        optimizer.step()
        average.update(small)
        schedule.step(step + 1)
    return {
        "shapes": [list(m.shape) for m in maps],
        "means": [m.mean().item() for m in maps],
        "after training": small(x[..., :32, :32]),
        "averaged": average.module(x[..., :32, :32]),
        "rate": optimizer.param_groups[0]["lr"],
    }


@case("torchvision")
def torchvision_models():
    import torchvision

    x = tensor("vision", 1, 3, 64, 64)
    return {name: fill(getattr(torchvision.models, name)(num_classes=4))(x) for name in ("resnet18", "mobilenet_v2", "shufflenet_v2_x0_5")}


@case("torchvision")
def torchvision_transforms():
    import torch
    from PIL import Image
    from torchvision.transforms import v2

    pixels = np.clip(128 + 60 * numbers("pixels", 40, 50, 3), 0, 255).astype(np.uint8)
    chain = v2.Compose(
        [v2.Resize(32, antialias=True), v2.CenterCrop(24), v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.5] * 3, [0.2] * 3)],
    )  # fmt: skip
    return {
        "tensor": chain(torch.from_numpy(pixels).permute(2, 0, 1)),
        "image": v2.functional.pil_to_tensor(v2.functional.resize(Image.fromarray(pixels), [20, 25])),
    }  # fmt: skip


# ---- diffusers


@case("diffusers")
def unet_and_schedulers():
    """A U-Net denoises with several schedulers; the noise is given."""
    import diffusers
    import torch

    model = fill(diffusers.UNet2DModel(
        sample_size=8, in_channels=3, out_channels=3, layers_per_block=1, block_out_channels=(8, 16), norm_num_groups=4,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"), attention_head_dim=8,
    ))  # fmt: skip
    found = {}
    for name in ("DDIMScheduler", "EulerDiscreteScheduler", "DPMSolverMultistepScheduler", "UniPCMultistepScheduler", "PNDMScheduler"):
        schedule = getattr(diffusers, name)()
        schedule.set_timesteps(4)
        x = tensor("diffusion", 1, 3, 8, 8) * schedule.init_noise_sigma
        with torch.no_grad():
            for t in schedule.timesteps:
                x = schedule.step(model(schedule.scale_model_input(x, t), t).sample, t, x).prev_sample
        found[name] = x
    noise, times = tensor("noise", 2, 3, 8, 8), torch.tensor([10, 500])
    clean = diffusers.DDPMScheduler().add_noise(tensor("clean", 2, 3, 8, 8), noise, times)
    loss = torch.nn.functional.mse_loss(model(clean, times).sample, noise)
    loss.backward()
    return {**found, "loss": loss, "gradient": model.conv_in.weight.grad}


@case("diffusers")
def text_to_image():
    """Stable Diffusion's pipeline, from words to pixels."""
    import diffusers
    import transformers

    unet = fill(diffusers.UNet2DConditionModel(
        sample_size=8, layers_per_block=1, block_out_channels=(8, 16), norm_num_groups=4, cross_attention_dim=32, attention_head_dim=4,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"), up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
    ))  # fmt: skip
    vae = fill(diffusers.AutoencoderKL(
        block_out_channels=(8, 16), norm_num_groups=4, latent_channels=4, sample_size=16,
        down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2,
    ))  # fmt: skip
    text = fill(
        transformers.CLIPTextModel(
            transformers.CLIPTextConfig(**{**TEXT, "vocab_size": len(WORDS)}, max_position_embeddings=12, eos_token_id=3),
        ),  # fmt: skip
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        text_folder(folder)
        tokenizer = transformers.BertTokenizer(os.path.join(folder, "vocab.txt"), model_max_length=12)
    pipe = diffusers.StableDiffusionPipeline(
        vae=vae, text_encoder=text, tokenizer=tokenizer, unet=unet, scheduler=diffusers.DDIMScheduler(), safety_checker=None,
        feature_extractor=None, requires_safety_checker=False,
    )  # fmt: skip
    pipe.set_progress_bar_config(disable=True)
    images = pipe(
        "a cat on the mat", latents=tensor("latents", 1, 4, 8, 8), num_inference_steps=3, guidance_scale=3.0,
        output_type="np",
    ).images  # fmt: skip
    return {"image": images}


# ---- ultralytics


@case("ultralytics")
def yolo():
    """A detector from its description: forward, loss with gradients, boxes after suppression."""
    import torch
    from ultralytics.nn.tasks import DetectionModel

    model = fill(DetectionModel("yolov8n.yaml", ch=3, nc=4, verbose=False))
    x = tensor("yolo", 1, 3, 64, 64).sigmoid()
    with torch.no_grad():
        output = model(x)
    from ultralytics.cfg import get_cfg

    model.args = get_cfg()
    model.train()
    batch = {
        "img": x, "cls": torch.tensor([[1.0], [2.0]]),
        "bboxes": torch.tensor([[0.4, 0.5, 0.3, 0.4], [0.7, 0.3, 0.2, 0.2]]), "batch_idx": torch.zeros(2),
    }  # fmt: skip
    loss, parts = model.loss(batch)
    loss.sum().backward()
    parts = list(parts.values()) if isinstance(parts, dict) else list(parts)
    return {"boxes and scores": output[0], "losses": [float(part) for part in parts], "gradient": next(model.parameters()).grad.norm()}
