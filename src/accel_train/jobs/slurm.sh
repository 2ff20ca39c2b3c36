#!/bin/bash
# Made by {{ made_by }}
# Submit it: sbatch FILE. Submitted again, it resumes an unfinished run.
#SBATCH --job-name={{ job_name }}
#SBATCH --output=%x-%j.log
#SBATCH --open-mode=append
#SBATCH --nodes={{ nodes }}
#SBATCH --ntasks-per-node={{ tasks }}
{% if gpus_per_node %}
#SBATCH --gpus-per-node={{ gpus_per_node }}
{% endif %}
{% if cpus_per_task %}
#SBATCH --cpus-per-task={{ cpus_per_task }}
{% endif %}
{% if mem %}
#SBATCH --mem={{ mem }}
{% endif %}
{% if partition %}
#SBATCH --partition={{ partition }}
{% endif %}
{% if account %}
#SBATCH --account={{ account }}
{% endif %}
{% if time %}
#SBATCH --time={{ time }}
{% endif %}
# Before the time limit all processes get SIGUSR1, save, and exit with 138.
#SBATCH --signal=USR1@{{ grace_seconds }}
# After preemption or the loss of a node, SLURM queues the job again.
#SBATCH --requeue

# The Python that has accel_train: all nodes must see it.
export PATH={{ programs | quoted }}:"$PATH"
{% if cpus_per_task %}
# Since SLURM 22.05 srun does not take this from sbatch.
export SRUN_CPUS_PER_TASK={{ cpus_per_task }}
{% endif %}

{{ words | command }}
code=$?

# The time is over and the run is saved: it resumes in the next slot.
if [ "$code" -eq 138 ] && [ "${SLURM_RESTART_COUNT:-0}" -lt {{ most_requeues }} ]; then
    scontrol requeue "$SLURM_JOB_ID"
fi
exit "$code"
