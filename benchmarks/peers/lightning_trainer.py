"""Lightning's Trainer with a minimal module; everything optional is turned off.

Shape suffixes: B images, C channels, H height, W width.
"""

from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader

from benchmarks.peers.work import Clock, Work, cosine_for, optimizer_for, pictures, usual_transform


def train(work: Work, clock: Clock) -> nn.Module:
    data = work.open()
    loader = DataLoader(pictures(work, data, usual_transform(data)), work.batch_size, shuffle=True, drop_last=True)
    module = _Classifier(work.build(data).module, work)
    trainer = Trainer(
        accelerator=work.device,
        devices=work.processes,
        strategy="ddp" if work.processes > 1 else "auto",
        precision="bf16-mixed" if work.precision == "bf16" else "32-true",
        max_epochs=work.epochs,
        callbacks=[_Ticking(clock)],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(module, loader)
    return module.model


class _Classifier(LightningModule):
    def __init__(self, model: nn.Module, work: Work) -> None:
        super().__init__()
        self.model = model
        self._work = work

    def training_step(self, batch: tuple[Tensor, Tensor], number: int) -> Tensor:
        images_BCHW, labels_B = batch
        loss = functional.cross_entropy(self.model(images_BCHW), labels_B)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self) -> dict[str, Any]:
        optimizer = optimizer_for(self.parameters())
        scheduler = cosine_for(optimizer, self._work)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}


class _Ticking(Callback):
    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def on_train_batch_end(self, *_: object) -> None:
        self._clock.tick()
