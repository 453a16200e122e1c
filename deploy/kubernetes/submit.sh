#!/usr/bin/env bash
# Start the application in a driver pod of its own: ./submit.sh https://<api server> <image>@sha256:<digest>
set -euo pipefail
cd "$(dirname "$0")"

case ${2:-} in *@sha256:*) ;; *) echo "$0: name the image by its digest, which docker push prints: <image>@sha256:…" >&2; exit 2 ;; esac

volume=spark.kubernetes.executor.volumes.persistentVolumeClaim.state
exec spark-submit \
  --master "k8s://$1" --deploy-mode cluster --name word-count \
  --conf spark.kubernetes.container.image="$2" \
  --conf spark.authenticate=true --conf spark.network.crypto.enabled=true \
  --conf spark.kubernetes.authenticate.driver.serviceAccountName=spark \
  --conf spark.kubernetes.driver.podTemplateFile=driver-pod.yaml \
  --conf spark.kubernetes.executor.podTemplateFile=executor-pod.yaml \
  --conf spark.executor.instances=3 --conf spark.executor.cores=2 \
  --conf spark.driver.memory=1g --conf spark.driver.memoryOverhead=512m \
  --conf spark.executor.memory=1g --conf spark.executor.memoryOverhead=1600m \
  --conf $volume.mount.path=/var/lib/penstock \
  --conf $volume.options.claimName=OnDemand \
  --conf $volume.options.storageClass=standard \
  --conf $volume.options.sizeLimit=20Gi \
  --conf spark.kubernetes.driver.ownPersistentVolumeClaim=true \
  --conf spark.kubernetes.driver.reusePersistentVolumeClaim=true \
  --conf spark.kubernetes.driver.waitToReusePersistentVolumeClaim=true \
  local:///opt/application/application.py
