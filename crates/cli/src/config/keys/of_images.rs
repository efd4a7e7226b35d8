//! What image classification reads.

use super::{Key, Shown};

pub(super) const OF_IMAGES: &[Key] = &[
    Key {
        names: &["inherit"],
        default: Shown::Told("–"),
        meaning: "the configs whose values stand in for those that are left out; read in files, not with `--set`",
    },
    Key {
        names: &["task"],
        default: Shown::Told("`image-classification`"),
        meaning: "or `tabular-regression`: a number from the other numbers of a row; it has keys of its own, below",
    },
    Key { names: &["name"], default: Shown::Plan, meaning: "part of the run folder's name" },
    Key {
        names: &["seed"],
        default: Shown::Plan,
        meaning: "seeds weights, shuffling, augmentation and dropout",
    },
    Key {
        names: &["device"],
        default: Shown::Plan,
        meaning: "`auto`, `flex`, `cuda:0`, …; `cargo xtask probe` lists them",
    },
    Key {
        names: &["precision"],
        default: Shown::Plan,
        meaning: "`f32`, `bf16-mixed`, `f16-mixed`, or dtypes as `p=f32,c=bf16,o=f32`",
    },
    Key {
        names: &["data.source"],
        default: Shown::Plan,
        meaning: "or `archives`, `folders`, `manifest`, `cifar-10`, `cifar-100`",
    },
    Key {
        names: &["data.dir"],
        default: Shown::Plan,
        meaning: "the data folder; `--data` comes before it",
    },
    Key {
        names: &["data.train", "data.test"],
        default: Shown::Plan,
        meaning: "names inside it: archives `.tar` or `.tar.gz` of `class/file`, folders of the same, or manifests `.csv` or `.tsv`",
    },
    Key {
        names: &["data.test_fraction"],
        default: Shown::Beside("data.source = \"folders\"\ndata.train = \"a\""),
        meaning: "share of each class held out where there is no `data.test`; folders and manifests only",
    },
    Key {
        names: &["data.inflate_to"],
        default: Shown::Plan,
        meaning: "archives only: a folder that gzipped ones are inflated into once, to be read there; else into memory, up to 4 GiB",
    },
    Key {
        names: &["data.path_column", "data.class_column"],
        default: Shown::Beside("data.source = \"manifest\"\ndata.train = \"a.csv\""),
        meaning: "manifest only: where an image lies, from the manifest's folder, and what its class is",
    },
    Key {
        names: &["data.files"],
        default: Shown::Beside(r#"data.source = "cifar-10""#),
        meaning: "CIFAR only: its binary version inside the data folder, unpacked or as `.tar` or `.tar.gz`",
    },
    Key {
        names: &["data.labels"],
        default: Shown::Beside(r#"data.source = "cifar-100""#),
        meaning: "cifar-100 only: a hundred classes, or `coarse`, twenty groups",
    },
    Key {
        names: &["data.cache"],
        default: Shown::Told("`whole`; `memory` where `data.faults` are borne"),
        meaning: "what is kept of decoded images: all of them before the first batch, or `memory` with `budget_mib` (1024) as they are first read, `file` with `folder` where later runs find them, `none`",
    },
    Key {
        names: &["data.faults"],
        default: Shown::Plan,
        meaning: "or `skip` with `at_most` images left out of an epoch, or `quarantine`, which also writes them to `file`; both need `data.cache` `memory` or `none`",
    },
    Key {
        names: &["data.how_to_get"],
        default: Shown::Plan,
        meaning: "printed when the data is missing",
    },
    Key {
        names: &["data.height", "data.width"],
        default: Shown::Plan,
        meaning: "images are resized to this, in pixels",
    },
    Key {
        names: &["data.mean", "data.std"],
        default: Shown::Plan,
        meaning: "per channel, as fractions of 255",
    },
    Key {
        names: &["data.cue"],
        default: Shown::Plan,
        meaning: "generated only: `color`, `brightness` or `both` tell the classes apart",
    },
    Key {
        names: &["data.train_images", "data.test_images"],
        default: Shown::Plan,
        meaning: "generated only",
    },
    Key {
        names: &["model.kind"],
        default: Shown::Plan,
        meaning: "or `separable`: depthwise-separable convolutions",
    },
    Key {
        names: &["model.depth"],
        default: Shown::Plan,
        meaning: "dual-pathway only: two stages of one block",
    },
    Key {
        names: &["model.channels"],
        default: Shown::Plan,
        meaning: "width of the first stage, or of the stem",
    },
    Key {
        names: &["model.stem_stride"],
        default: Shown::Plan,
        meaning: "2 halves the image before the first stage",
    },
    Key {
        names: &["model.dropout"],
        default: Shown::Plan,
        meaning: "before each layer of the classifier",
    },
    Key {
        names: &["model.luma"],
        default: Shown::Plan,
        meaning: "dual-pathway only: `bt709` or `bt601`",
    },
    Key {
        names: &["model.integration_points"],
        default: Shown::Plan,
        meaning: "dual-pathway only: `early`, `middle`, `late` or `all`",
    },
    Key {
        names: &["augment.flip"],
        default: Shown::Plan,
        meaning: "mirror half of the training images",
    },
    Key {
        names: &["augment.translate"],
        default: Shown::Plan,
        meaning: "shift by up to so many pixels, reflecting the border",
    },
    Key {
        names: &["augment.rotate"],
        default: Shown::Plan,
        meaning: "turn by up to so many degrees either way, reflecting the border",
    },
    Key {
        names: &["augment.zoom"],
        default: Shown::Plan,
        meaning: "`min_factor` and `max_factor`: magnify about the center, reflecting the border",
    },
    Key {
        names: &["augment.random_resized_crop"],
        default: Shown::Plan,
        meaning: "`min_area` (0.08) and `max_stretch` (4/3): stretch a random part over the whole",
    },
    Key {
        names: &["augment.color_jitter"],
        default: Shown::Plan,
        meaning: "`brightness`, `contrast`, `saturation` (0 to 1) and `hue` (turns, 0 to 0.5): the strongest change of each, 0 where not given",
    },
    Key {
        names: &["augment.mix_up"],
        default: Shown::Plan,
        meaning: "`alpha`: mixes each image and its class with the next of its batch by a share \
                  drawn from Beta(`alpha`, `alpha`); with cross-entropy, binary cross-entropy \
                  and squared errors only",
    },
    Key {
        names: &["train.epochs"],
        default: Shown::Plan,
        meaning: "passes over the training images",
    },
    Key { names: &["train.batch"], default: Shown::Plan, meaning: "images a step" },
    Key { names: &["train.learning_rate"], default: Shown::Plan, meaning: "the schedule's peak" },
    Key {
        names: &["train.schedule"],
        default: Shown::Plan,
        meaning: "or `constant`, `cosine-restarts`, `one-cycle`, `step`, `exponential`, each with numbers of its own",
    },
    Key {
        names: &["train.plateau"],
        default: Shown::Plan,
        meaning: "`factor`, `patience`, `threshold` and `floor`: lowers the learning rate when epochs stop getting better",
    },
    Key {
        names: &["train.optimizer"],
        default: Shown::Plan,
        meaning: "or `sgd` with `momentum`; `weight_decay` for both",
    },
    Key {
        names: &["train.label_smoothing"],
        default: Shown::Plan,
        meaning: "share of each label spread over all classes",
    },
    Key {
        names: &["train.loss"],
        default: Shown::Plan,
        meaning: "or `focal` with `gamma`, `binary-cross-entropy`, `asymmetric` with `positive_focus`, `negative_focus` and `margin`, `mean-squared-error`",
    },
    Key {
        names: &["train.clip_norm"],
        default: Shown::Plan,
        meaning: "largest global norm of the gradients",
    },
    Key {
        names: &["train.loss_scale"],
        default: Shown::Told("`dynamic` where f16 computes, else `none`"),
        meaning: "or `static` with `scale`; `dynamic` takes `initial`, `growth`, `backoff`, `interval`, `floor`, `ceiling` and `longest_skips`",
    },
    Key {
        names: &["train.recompute"],
        default: Shown::Plan,
        meaning: "memory for time: `element-wise` is burn's own strategy, `segments` keeps what flows between the network's stages",
    },
    Key {
        names: &["train.auto_batch"],
        default: Shown::Plan,
        meaning: "`least`, `most`, `head_room` and `budget_mib`: before the run, finds the largest batch whose step fits into memory, and trains with it",
    },
    Key {
        names: &["train.accumulate"],
        default: Shown::Plan,
        meaning: "batches whose mean gradient makes an update",
    },
    Key {
        names: &["train.non_finite"],
        default: Shown::Plan,
        meaning: "what follows a loss or gradient that is not finite: `stop`, `skip` with `at_most` in a row, or `ignore`",
    },
    Key {
        names: &["train.ema_decay"],
        default: Shown::Plan,
        meaning: "keeps, scores and serves a moving average of the parameters; 0.99 to 0.9999",
    },
    Key {
        names: &["train.recompute_batch_norms"],
        default: Shown::Plan,
        meaning: "training batches, or `all`, from which the served model's batch norms are computed at each epoch's end",
    },
    Key {
        names: &["train.criterion"],
        default: Shown::Plan,
        meaning: "or `test-loss`, `train-loss`: what makes one epoch better than another",
    },
    Key {
        names: &["train.early_stop"],
        default: Shown::Plan,
        meaning: "`patience` and `least_gain`: ends the run after epochs without a gain and serves the best",
    },
    Key {
        names: &["train.timing"],
        default: Shown::Plan,
        meaning: "or `done`, which waits for the device after each phase of a step",
    },
    Key {
        names: &["train.transfer"],
        default: Shown::Plan,
        meaning: "or `ahead`, which moves the next step's first batch to the device while the device computes the backward pass; nothing overlaps on flex",
    },
    Key {
        names: &["train.workers"],
        default: Shown::Plan,
        meaning: "threads that load data; 0 loads on the training thread",
    },
    Key {
        names: &["train.checkpoint_every_steps"],
        default: Shown::Plan,
        meaning: "beside the checkpoint at each epoch's end",
    },
    Key {
        names: &["train.keep_checkpoints"],
        default: Shown::Plan,
        meaning: "how many of the newest are kept",
    },
    Key {
        names: &["train.keep_best"],
        default: Shown::Plan,
        meaning: "how many of the best are kept beside them",
    },
    Key {
        names: &["log.csv"],
        default: Shown::Plan,
        meaning: "also writes `steps.csv` and `epochs.csv`",
    },
    Key {
        names: &["log.tensorboard"],
        default: Shown::Plan,
        meaning: "also writes an event file for `tensorboard --logdir RUN`",
    },
    Key {
        names: &["log.utilization"],
        default: Shown::Plan,
        meaning: "measures the device's peak first, as a narrow `precision` does by itself, and reports the model's GFLOP/s and their share of the measured peak with every step",
    },
    Key {
        names: &["log.trace"],
        default: Shown::Plan,
        meaning: "`[first, last]`: steps written to `trace.json`, which Chrome and Perfetto show",
    },
];
