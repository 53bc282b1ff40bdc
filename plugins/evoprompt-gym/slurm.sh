#!/bin/bash
# Five seeds of both arms as jobs of one GPU each, from the folder of the clone on a shared disk:
#   OPENAI_API_KEY=... sbatch plugins/evoprompt-gym/slurm.sh
# This job only submits them and waits; should it be lost, Slurm starts it again and it goes on.
#SBATCH --job-name=evoprompt
#SBATCH --cpus-per-task=1
#SBATCH --mem=4G
#SBATCH --time=3-00:00:00
#SBATCH --requeue
#SBATCH --open-mode=append
set -euo pipefail
. .venv/bin/activate

resume=()
if [ -e runs/first/config.yaml ]; then resume=(--resume); fi
exec evoprompt run plugins/evoprompt-gym/chain-sum.yaml --seeds 5 --output runs/first "${resume[@]}" \
  --launcher slurm --set launcher.gpus=1 --set launcher.cpus=8 --set launcher.memory_gb=64 \
  --set launcher.minutes=720 --set "launcher.setup=[. $PWD/.venv/bin/activate]"
