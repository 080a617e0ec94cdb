"""What the fields of the built-in kinds mean, in a line each, in words for readers of `kubectl explain`.

A line at the margin starts a definition, an indented line is one of its fields: name (`!` if required), type, and what it
says. Types: string, int, bool, time, quantity, bytes, any, int|string, another definition, `[]T` for a list and `{}T` for
a map. Fields that are not listed here are stored as they come: this is a guide, not the whole of Kubernetes.
"""

__all__ = ["AUTHENTICATION", "AUTHORIZATION", "COORDINATION", "CORE", "EXTENSIONS", "RBAC", "SHARED"]

SHARED = """
ObjectMeta | What every stored object has: its identity and how it hangs together with others.
  name string | Identifies the object within its kind and namespace; it cannot be changed.
  generateName string | A prefix to which the server adds a random ending when no name is given.
  namespace string | The namespace the object lives in; empty for cluster-wide kinds.
  uid string | Identifies this very object in time: a new object of the same name has another one.
  resourceVersion string | Changes with every write; send it back to make sure that no client wrote in between.
  generation int | Counts the changes of what is wanted; set by the server.
  creationTimestamp time | When the object was created; set by the server.
  deletionTimestamp time | When deletion was asked for, or when the grace period ends; set by the server.
  deletionGracePeriodSeconds int | How long the object may take to end gracefully.
  labels {}string | Names and values by which objects are selected.
  annotations {}string | Names and values for tools; they are never selected by.
  ownerReferences []OwnerReference | The objects this one depends on; it is removed when all of them are gone.
  finalizers []string | Who must let go of the object before it disappears.
  managedFields []ManagedFieldsEntry | Which manager set which fields.
OwnerReference | An object that another one depends on.
  apiVersion! string | Group and version of the owner.
  kind! string | Kind of the owner.
  name! string | Name of the owner.
  uid! string | Identity of the owner.
  controller bool | Whether this owner is the one that manages the object.
  blockOwnerDeletion bool | Whether a foreground deletion of the owner waits for this object.
ManagedFieldsEntry | The fields that one manager set.
  manager string | Who set them.
  operation string | Apply, or Update.
  apiVersion string | The version of the API in which they were set.
  time time | When the set of fields last changed.
  fieldsType string | The format of the set.
  fieldsV1 any | The set of fields.
  subresource string | The subresource through which they were set.
ListMeta | What a list says about itself.
  resourceVersion string | The state of the store that the list shows; a watch may start from it.
  continue string | Where the next page starts.
  remainingItemCount int | How many objects follow on later pages.
LabelSelector | Selects objects by their labels.
  matchLabels {}string | Labels that must have exactly these values.
  matchExpressions []LabelSelectorRequirement | Further conditions; all of them must hold.
LabelSelectorRequirement | One condition on a label.
  key! string | The label.
  operator! string | In, NotIn, Exists or DoesNotExist.
  values []string | The values to compare with.
"""

CORE = """
Namespace | A scope for names: most objects live in one.
  spec NamespaceSpec | How the namespace behaves.
  status NamespaceStatus | In which state it is.
NamespaceSpec | How a namespace behaves.
  finalizers []string | Who must let go before the namespace disappears.
NamespaceStatus | The state of a namespace.
  phase string | Active, or Terminating.
  conditions []Condition | What holds up its deletion.
Condition | One observation about an object.
  type! string | What is observed.
  status! string | True, False or Unknown.
  reason string | Why, in one word.
  message string | Why, in a sentence.
  lastTransitionTime time | When the status last changed.
  lastHeartbeatTime time | When it was last confirmed.
  lastProbeTime time | When it was last looked at.
  observedGeneration int | The generation that it is about.
Secret | Small confidential values, such as passwords and keys.
  type string | What the secret is for; Opaque unless said otherwise.
  data {}bytes | The values, in base64.
  stringData {}string | Values in plain text; the server moves them into data.
  immutable bool | If true, the values can no longer be changed.
ConfigMap | Small values that are not confidential.
  data {}string | The values, as text.
  binaryData {}bytes | Values that are not text, in base64.
  immutable bool | If true, the values can no longer be changed.
ServiceAccount | An identity for programs.
  secrets []ObjectReference | Secrets that pods under this identity may use.
  imagePullSecrets []LocalObjectReference | Secrets for fetching images.
  automountServiceAccountToken bool | Whether pods get a token without asking.
ObjectReference | Points to another object.
  apiVersion string | Its group and version.
  kind string | Its kind.
  namespace string | Its namespace.
  name string | Its name.
  uid string | Its identity.
  resourceVersion string | The version that is meant.
  fieldPath string | The part of it that is meant.
LocalObjectReference | Points to an object in the same namespace.
  name string | Its name.
Event | Something that happened to an object, for people to read.
  involvedObject! ObjectReference | The object it happened to.
  reason string | What happened, in one word.
  message string | What happened, in a sentence.
  type string | Normal, or Warning.
  source EventSource | Who reported it.
  firstTimestamp time | When it first happened.
  lastTimestamp time | When it last happened.
  count int | How often it happened.
  eventTime time | When it happened, to the microsecond.
  series EventSeries | The series the event belongs to.
  action string | What was being done.
  related ObjectReference | Another object that took part.
  reportingComponent string | The controller that reported it.
  reportingInstance string | Which instance of that controller.
EventSource | Who reported an event.
  component string | The program.
  host string | The node it runs on.
EventSeries | A run of equal events.
  count int | How many there were.
  lastObservedTime time | When the last one was.
Binding | Puts a pod on a node.
  target! ObjectReference | The node.
Pod | A group of containers that is placed on one node and lives and dies as a whole.
  spec PodSpec | What should run.
  status PodStatus | What was last seen of it; written by the node.
PodSpec | What a pod should run, and where.
  containers! []Container | The containers; at least one.
  initContainers []Container | Containers that run one after the other before the others start.
  volumes []Volume | Storage that containers of the pod can mount.
  restartPolicy string | Always, OnFailure or Never: whether an ended container is started again.
  terminationGracePeriodSeconds int | How long the pod may take to stop before it is killed.
  activeDeadlineSeconds int | How long the pod may run in all.
  dnsPolicy string | Where names are looked up.
  nodeSelector {}string | Labels that the node must have.
  nodeName string | The node the pod is on; set by the scheduler.
  serviceAccountName string | The identity of the programs in the pod.
  serviceAccount string | An older name of serviceAccountName.
  automountServiceAccountToken bool | Whether a token of that identity is mounted.
  hostNetwork bool | Whether the pod uses the network of its node.
  hostname string | The name of the machine as the containers see it.
  subdomain string | The domain that name is in.
  securityContext any | Users, groups and kernel settings for all containers.
  imagePullSecrets []LocalObjectReference | Secrets for fetching images.
  affinity any | Which nodes and neighbours the pod prefers or avoids.
  schedulerName string | Who chooses the node.
  tolerations []Toleration | Taints of nodes that the pod puts up with.
  priorityClassName string | A named priority.
  priority int | The priority itself; higher ones are placed first.
  preemptionPolicy string | Whether the pod may push out others.
  enableServiceLinks bool | Whether services appear in the environment.
  readinessGates []PodReadinessGate | Further conditions that must hold before the pod counts as ready.
  runtimeClassName string | The runtime to use.
  schedulingGates []PodSchedulingGate | While there are any, the pod is not scheduled.
  overhead {}quantity | Resources that running the pod itself takes.
  ephemeralContainers []any | Containers that were added to a running pod, to look into it.
  hostPID bool | Whether the pod sees the processes of its node.
  hostIPC bool | Whether the pod shares memory with processes of its node.
  hostUsers bool | If false, the users of the pod are not those of the node.
  shareProcessNamespace bool | Whether the containers see each other's processes.
  hostAliases []any | Further lines of the hosts file.
  hostnameOverride string | The name of the machine, whatever the pod is called.
  setHostnameAsFQDN bool | Whether that name includes the domain.
  dnsConfig any | Name servers and search domains.
  topologySpreadConstraints []any | How evenly such pods are spread.
  os any | The operating system that the pod needs.
  resourceClaims []any | Devices that are claimed before the pod runs.
  resources ResourceRequirements | What all of its containers need together.
  schedulingGroup any | The pods that are placed together with it.
  workloadRef any | The workload that it is a part of.
PodReadinessGate | A condition that readiness depends on.
  conditionType! string | The condition.
PodSchedulingGate | Something that holds back scheduling.
  name! string | Its name.
Container | One program with its image.
  name! string | Its name within the pod.
  image string | The image to run.
  command []string | The program, instead of the image's own.
  args []string | Its arguments.
  workingDir string | The folder it starts in.
  ports []ContainerPort | The ports it listens on.
  env []EnvVar | Its environment.
  envFrom []EnvFromSource | Where more of its environment comes from.
  resources ResourceRequirements | What it needs, and what it may use at most.
  volumeMounts []VolumeMount | Where volumes appear in its file system.
  livenessProbe Probe | Asked while it runs; a failure restarts it.
  readinessProbe Probe | Asked to know whether it is ready for work.
  startupProbe Probe | Asked first; the other probes wait for it.
  lifecycle any | What to do right after its start and before its end.
  terminationMessagePath string | The file with its last words.
  terminationMessagePolicy string | Where else its last words may come from.
  imagePullPolicy string | Always, IfNotPresent or Never.
  securityContext any | User, capabilities and the like.
  restartPolicy string | For an init container, Always makes it run beside the others.
  stdin bool | Whether it has a standard input.
  stdinOnce bool | Whether that ends with the first client.
  tty bool | Whether it has a terminal.
  resizePolicy []any | What happens when its resources change.
  restartPolicyRules []any | For which exit codes it is started again.
  volumeDevices []any | Volumes that it sees as block devices.
ContainerPort | A port that a container listens on.
  containerPort! int | Its number.
  name string | A name for it.
  protocol string | TCP, UDP or SCTP.
  hostPort int | The same on the node.
  hostIP string | The node's address to bind to.
EnvVar | One variable of an environment.
  name! string | Its name.
  value string | Its value.
  valueFrom any | Where its value comes from instead.
EnvFromSource | Many variables at once.
  prefix string | What to put before their names.
  configMapRef EnvReference | A ConfigMap with the variables.
  secretRef EnvReference | A Secret with the variables.
EnvReference | Where many variables come from.
  name string | Its name.
  optional bool | Whether the container starts without it.
ResourceRequirements | What a container needs, and what it may use.
  requests {}quantity | What is kept for it.
  limits {}quantity | What it cannot exceed.
  claims []any | Devices it uses.
VolumeMount | Where a volume appears.
  name! string | The volume.
  mountPath! string | The folder it appears at.
  subPath string | The part of the volume to show.
  subPathExpr string | The same, with variables of the environment.
  mountPropagation string | Whether mounts inside it are seen on the other side.
  recursiveReadOnly string | Whether mounts inside it cannot be written to either.
  readOnly bool | Whether it cannot be written to.
Volume | Storage for the containers of a pod; one kind of source is set.
  name! string | Its name within the pod.
  emptyDir any | A folder that lives as long as the pod.
  secret any | The values of a Secret as files.
  configMap any | The values of a ConfigMap as files.
  hostPath any | A folder of the node.
  projected any | Several sources in one folder.
  downwardAPI any | Facts about the pod as files.
  persistentVolumeClaim any | Storage that outlives the pod.
  ephemeral any | Storage that is claimed for this pod and goes with it.
  csi any | Storage of a driver.
  image any | The files of an image.
  nfs any | A folder of an NFS server.
  iscsi any | A disk of an iSCSI server.
  fc any | A disk in a Fibre Channel network.
  gitRepo any | No longer used.
  gcePersistentDisk any | No longer used.
  awsElasticBlockStore any | No longer used.
  glusterfs any | No longer used.
  rbd any | No longer used.
  flexVolume any | No longer used.
  cinder any | No longer used.
  cephfs any | No longer used.
  flocker any | No longer used.
  azureFile any | No longer used.
  azureDisk any | No longer used.
  vsphereVolume any | No longer used.
  quobyte any | No longer used.
  photonPersistentDisk any | No longer used.
  portworxVolume any | No longer used.
  scaleIO any | No longer used.
  storageos any | No longer used.
Probe | A question to a container.
  exec any | Run a command in it.
  httpGet any | Ask over HTTP.
  tcpSocket any | Open a connection.
  grpc any | Ask over gRPC.
  initialDelaySeconds int | How long to wait before the first time.
  periodSeconds int | How often to ask.
  timeoutSeconds int | How long to wait for the answer.
  successThreshold int | How many good answers count as success.
  failureThreshold int | How many bad answers count as failure.
  terminationGracePeriodSeconds int | How long it may take to stop after a failure.
Toleration | A taint that a pod puts up with.
  key string | The taint; empty means any.
  operator string | Exists, or Equal.
  value string | The value to compare with.
  effect string | NoSchedule, PreferNoSchedule or NoExecute; empty means any.
  tolerationSeconds int | For how long; without it, for ever.
PodStatus | What was last seen of a pod.
  phase string | Pending, Running, Succeeded, Failed or Unknown.
  conditions []Condition | Whether it is scheduled, initialized and ready.
  message string | Why it is in this state, in a sentence.
  reason string | Why it is in this state, in one word.
  hostIP string | The address of its node.
  podIP string | Its own address.
  podIPs []PodIP | All of its addresses.
  startTime time | When the node took it.
  initContainerStatuses []ContainerStatus | The states of its init containers.
  containerStatuses []ContainerStatus | The states of its containers.
  qosClass string | Guaranteed, Burstable or BestEffort, from what its containers ask for.
  nominatedNodeName string | The node that is kept free for it.
  observedGeneration int | The generation that the node has seen.
  hostIPs []any | All addresses of its node.
  ephemeralContainerStatuses []ContainerStatus | The states of its ephemeral containers.
  resize string | How far a change of its resources is.
  resources ResourceRequirements | What it has been given.
  allocatedResources {}quantity | What of its node is kept for it.
  resourceClaimStatuses []any | The devices that were claimed for it.
  extendedResourceClaimStatus any | The devices that were claimed for its extended resources.
PodIP | One address of a pod.
  ip string | The address.
ContainerStatus | The state of one container.
  name! string | The container.
  ready bool | Whether it is ready.
  started bool | Whether it has started.
  restartCount int | How often it was started anew.
  image string | The image that runs.
  imageID string | The exact image that runs.
  containerID string | The container as its runtime knows it.
  state ContainerState | How it is now.
  lastState ContainerState | How it ended the last time.
  resources ResourceRequirements | What it has been given.
  allocatedResources {}quantity | What of the node is kept for it.
  allocatedResourcesStatus []any | How its devices are.
  volumeMounts []any | The volumes that it has mounted.
  user any | The user that it runs as.
  stopSignal string | The signal that asks it to stop.
ContainerState | Waiting, running or ended.
  waiting ContainerStateWaiting | It has not started.
  running ContainerStateRunning | It runs.
  terminated ContainerStateTerminated | It has ended.
ContainerStateWaiting | Why a container has not started.
  reason string | In one word.
  message string | In a sentence.
ContainerStateRunning | A container that runs.
  startedAt time | Since when.
ContainerStateTerminated | How a container ended.
  exitCode int | Its exit code.
  signal int | The signal that ended it.
  reason string | Why, in one word.
  message string | Why, in a sentence.
  startedAt time | When it had started.
  finishedAt time | When it ended.
  containerID string | The container as its runtime knew it.
Node | A machine that runs pods.
  spec NodeSpec | How the machine is to be used.
  status NodeStatus | What the machine last said of itself.
NodeSpec | How a node is to be used.
  unschedulable bool | If true, no new pods are placed on it.
  taints []Taint | What keeps pods away that do not put up with it.
  providerID string | The machine as the cloud knows it.
  podCIDR string | The addresses of its pods.
  podCIDRs []string | The same, for several address families.
  configSource any | No longer used.
  externalID string | No longer used.
Taint | Something about a node that keeps pods away.
  key! string | Its name.
  value string | Its value.
  effect! string | NoSchedule, PreferNoSchedule or NoExecute.
  timeAdded time | Since when.
NodeStatus | What a node last said of itself.
  capacity {}quantity | What the machine has.
  allocatable {}quantity | What of it pods can use.
  conditions []Condition | Ready, and what is wrong.
  addresses []NodeAddress | Where it can be reached.
  nodeInfo NodeSystemInfo | Its versions.
  daemonEndpoints any | Where its agent listens.
  images []any | The images it has.
  phase string | No longer used.
  config any | No longer used.
  volumesInUse []string | The volumes that pods use.
  volumesAttached []any | The volumes that are attached.
  runtimeHandlers []any | What its container runtime can do.
  features any | What its runtime can do beside that.
  declaredFeatures []string | What its agent can do.
NodeAddress | One address of a node.
  type! string | InternalIP, ExternalIP, Hostname and so on.
  address! string | The address.
NodeSystemInfo | The versions of a node's software.
  machineID string | The machine's own identity.
  systemUUID string | The identity its maker gave it.
  bootID string | Changes with every start.
  kernelVersion string | The kernel.
  osImage string | The operating system.
  containerRuntimeVersion string | What runs the containers.
  kubeletVersion string | The node's agent.
  kubeProxyVersion string | No longer used.
  operatingSystem string | linux, darwin and so on.
  architecture string | arm64, amd64 and so on.
  swap any | Its swap space.
Service | One address for many pods.
  spec ServiceSpec | How it is reached and who answers.
  status ServiceStatus | What was given to it.
ServiceSpec | How a service is reached.
  type string | ClusterIP, NodePort, LoadBalancer or ExternalName.
  selector {}string | The labels of the pods that answer.
  ports []ServicePort | The ports it answers on.
  clusterIP string | Its address in the cluster.
  clusterIPs []string | The same, for several address families.
  externalIPs []string | Further addresses.
  externalName string | Another name it stands for.
  sessionAffinity string | None, or ClientIP to keep a client at one pod.
  internalTrafficPolicy string | Cluster, or Local to stay on the node.
  ipFamilies []string | IPv4, IPv6 or both.
  ipFamilyPolicy string | How many address families it has.
  loadBalancerIP string | No longer used.
  loadBalancerSourceRanges []string | From where its load balancer may be reached.
  loadBalancerClass string | Who makes its load balancer.
  allocateLoadBalancerNodePorts bool | Whether a load balancer needs ports of the nodes.
  externalTrafficPolicy string | Cluster, or Local to stay on the node where it came in.
  healthCheckNodePort int | Where a load balancer asks whether the node has such pods.
  publishNotReadyAddresses bool | Whether pods answer that are not ready.
  sessionAffinityConfig any | How long a client is kept at one pod.
  trafficDistribution string | Which pods are preferred.
ServicePort | One port of a service.
  port! int | Its number.
  name string | A name for it.
  protocol string | TCP, UDP or SCTP.
  targetPort int|string | The port of the pods.
  nodePort int | The port of the nodes.
  appProtocol string | What is spoken on it.
ServiceStatus | What was given to a service.
  loadBalancer any | The addresses of its load balancer.
  conditions []any | What is known of it.
"""

COORDINATION = """
Lease | Says who leads, and until when.
  spec LeaseSpec | The holder and the times.
LeaseSpec | The holder and the times of a lease.
  holderIdentity string | Who holds it.
  leaseDurationSeconds int | How long it is valid after it was renewed.
  acquireTime time | When it was taken.
  renewTime time | When it was last renewed.
  leaseTransitions int | How often it changed hands.
  strategy string | How holders are chosen.
  preferredHolder string | Who should hold it.
"""

RBAC = """
Role | Rights within one namespace.
  rules []PolicyRule | The rights.
ClusterRole | Rights in the whole cluster.
  rules []PolicyRule | The rights.
  aggregationRule any | Which other roles' rights are added.
PolicyRule | What may be done to what.
  verbs! []string | What may be done; * for all.
  apiGroups []string | The groups of the resources; an empty text for the core.
  resources []string | The resources; * for all.
  resourceNames []string | Only objects of these names.
  nonResourceURLs []string | Paths that are no resources.
RoleBinding | Gives a role to users, groups and accounts, within one namespace.
  subjects []Subject | Who gets it.
  roleRef! RoleRef | The role; it cannot be changed.
ClusterRoleBinding | Gives a role to users, groups and accounts, in the whole cluster.
  subjects []Subject | Who gets it.
  roleRef! RoleRef | The role; it cannot be changed.
Subject | A user, group or account that can hold a role.
  kind! string | User, Group or ServiceAccount.
  apiGroup string | The group of that kind.
  name! string | The name.
  namespace string | The namespace of a service account.
RoleRef | The role that is given.
  apiGroup string | Its group.
  kind! string | Role, or ClusterRole.
  name! string | Its name.
"""

EXTENSIONS = """
CustomResourceDefinition | Adds a kind to the API.
  spec! CustomResourceDefinitionSpec | The kind, its names and versions.
  status CustomResourceDefinitionStatus | Whether it is served.
CustomResourceDefinitionSpec | The kind that is added.
  group! string | Its group.
  names! CustomResourceDefinitionNames | Its names.
  scope! string | Namespaced, or Cluster.
  versions! []CustomResourceDefinitionVersion | Its versions.
  conversion any | How objects are converted between versions.
  preserveUnknownFields bool | Must be false.
CustomResourceDefinitionNames | The names of a kind.
  plural! string | The name in URLs.
  singular string | The name for one object.
  kind! string | The name in manifests.
  listKind string | The name of lists.
  shortNames []string | Abbreviations.
  categories []string | Groups such as `all` that it is listed with.
CustomResourceDefinitionVersion | One version of a kind.
  name! string | Such as v1alpha1.
  served! bool | Whether the API offers it.
  storage! bool | Whether objects are stored in it; true for exactly one.
  schema any | What objects look like.
  subresources any | Whether there is a status and a scale.
  additionalPrinterColumns []any | The columns of `kubectl get`.
  selectableFields []any | Fields that lists can be narrowed by.
  deprecated bool | Whether clients are warned.
  deprecationWarning string | What they are told.
CustomResourceDefinitionStatus | Whether a kind is served.
  conditions []any | NamesAccepted and Established.
  acceptedNames CustomResourceDefinitionNames | The names it is served under.
  storedVersions []string | The versions in which objects may be stored.
"""

CERTIFICATES = """
CertificateSigningRequest | Asks a signer for a certificate.
  metadata ObjectMeta | Name, labels and the like.
  spec! CertificateSigningRequestSpec | What is asked for; it never changes.
  status CertificateSigningRequestStatus | Whether it was approved, and the certificate.
CertificateSigningRequestSpec | What is asked for, and by whom.
  request! bytes | The request, PKCS#10 in PEM.
  signerName! string | Who is asked to sign.
  expirationSeconds int | How long the certificate should be valid; at least 600.
  usages []string | What the key is to be used for.
  username string | Who asked; set by the server.
  uid string | The identity of who asked; set by the server.
  groups []string | The groups of who asked; set by the server.
  extra {}[]string | What else is known of who asked; set by the server.
CertificateSigningRequestStatus | Whether a request was approved, and what came of it.
  conditions []CertificateSigningRequestCondition | Approved, Denied or Failed.
  certificate bytes | The certificate, in PEM.
CertificateSigningRequestCondition | What was said of a request.
  type! string | Approved, Denied or Failed.
  status! string | True.
  reason string | Why, in a word.
  message string | Why, in a sentence.
  lastUpdateTime time | When it was said last.
  lastTransitionTime time | When it was said first.
"""

AUTHENTICATION = """
TokenRequest | Asks for a token of a service account.
  spec! TokenRequestSpec | What the token is for.
  status any | The token.
TokenRequestSpec | What a token is for.
  audiences []string | Who is to accept it.
  expirationSeconds int | How long it is valid; at least 600.
  boundObjectRef any | The pod it dies with.
TokenReview | Asks whose token this is.
  spec! TokenReviewSpec | The token.
  status any | The answer.
TokenReviewSpec | The token in question.
  token string | The token.
  audiences []string | For whom it should be meant.
SelfSubjectReview | Asks who I am.
  status any | The answer.
"""

AUTHORIZATION = """
SelfSubjectAccessReview | Asks whether I may do something.
  spec! SelfSubjectAccessReviewSpec | What I would do.
  status any | The answer.
SelfSubjectAccessReviewSpec | What the caller would do.
  resourceAttributes any | The verb and the resource.
  nonResourceAttributes any | The verb and the path.
SubjectAccessReview | Asks whether a user may do something.
  spec! SubjectAccessReviewSpec | Who would do what.
  status any | The answer.
SubjectAccessReviewSpec | Who would do what.
  user string | The user.
  groups []string | The user's groups.
  uid string | The user's identity.
  resourceAttributes any | The verb and the resource.
  nonResourceAttributes any | The verb and the path.
SelfSubjectRulesReview | Asks what I may do in a namespace.
  spec! SelfSubjectRulesReviewSpec | The namespace.
  status any | The answer.
SelfSubjectRulesReviewSpec | Where the rights are asked for.
  namespace string | The namespace.
"""
