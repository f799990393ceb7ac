"""The table of classes that a model file may contain, in the notation of ``_schema``.

An estimator with an attribute that the table does not list cannot be saved, and the error names the
attribute. The table lists the scikit-learn classes that occur in pipelines of dm2l, AutoClassifier
and MaskedOneVsRestClassifier. A parameter that only ``fit`` reads has the type ``setting``. A
parameter that a fitted model reads can only have the listed values, so that no model runs code,
opens a file or starts a process.
"""

TABLE = r"""
Data
  n_features_in_?: size[d]
  feature_names_in_?: T[d]
  _metadata_request?: {{none | bool | str}}
  _sklearn_output_config?: {'default' | 'pandas'}
Labelled: Classifier Model Estimator Data
  missing_label missing_as threshold? calibration? coupling? cv? class_prior?: setting
  rules?: none | LabelRules
  _labels: LabelMatrix[c]
  _learnable: b[c]
  _keep?: b[...]
  _constant class_prior_? class_prior_error_? _label_frequency?: F[c]
  _completer: LabelCompleter[c] | PUCompleter[c]
  classes_: a[...] | a[c,2]
  label_names_: O[c]
  _home?: str
  n_iter_? n_evaluations_?: int
  objective_?: float
  objective_history_?: F[...]
  table_?: plain
Sized: Labelled
  n_features_in_: size[d]
  _home: str
Linear: Sized
  coef_: f[c,d]
  intercept_: f[c]
  correlations_?: f[c,c]

DM2LClassifier dm2l._classifier: Sized
  lambda_d alpha kernel gamma degree coef0 approximation n_components: setting
  fit_intercept local discriminant solver max_iter tol random_state warm_start verbose: setting
  strategy max_memory: setting
  coef_?: f[c,d]
  _keep: b[...]
  intercept_: f[c]
  dual_coef_?: f[m,c]
  X_fit_?: f[m,d] | sparse[m,d] | i8[m]
  _kernel?: Kernel
  _fourier_map?: FourierMap[d]
  _landmark_factor?: f[...,...]
  approximation_error_?: float
  _statistics?: plain
DM2LClassifierCV dm2l._search._search: Classifier Model Estimator Data
  lambda_ds alphas gammas kernel degree coef0 approximation n_components fit_intercept: setting
  discriminant max_iter tol search_iter search_tol scoring refit cv coupling: setting
  calibration threshold missing_label missing_as class_prior random_state verbose: setting
  rules?: none | LabelRules
  n_jobs: none | int[-256:256]
  _home: str
  best_estimator_?: DM2LClassifier[d]
  best_index_ n_splits_: int
  best_score_ alpha_ lambda_d_: float
  best_params_ gamma_ cv_results_: plain
MaskedRidgeClassifier dm2l.baselines._linear: Linear
  alpha fit_intercept solver: setting
LEMLClassifier dm2l.baselines._leml: Linear
  rank alpha loss missing fit_intercept max_iter tol random_state verbose: setting
LSMLClassifier dm2l.baselines._correlations: Linear
  lambda1 lambda2 lambda3 lambda4 rho missing fit_intercept max_iter tol verbose: setting
MLLRCClassifier dm2l.baselines._correlations: Linear
  lambda1 lambda2 lambda3 masked? missing fit_intercept max_iter tol verbose: setting
GLOCALClassifier dm2l.baselines._glocal: Linear
  lambda_ lambda1 lambda2 lambda3 lambda4 lambda5 n_components n_groups: setting
  fit_intercept max_iter tol random_state verbose: setting
MaskedOneVsRestClassifier dm2l.baselines._one_vs_rest: Labelled
  estimator: Estimator | Model
  n_jobs: none | int[-256:256]
  verbose: setting
  estimators_: [c, none | Model]
  _columns: [none | i[...] | b[...]]
ZeroFillClassifier dm2l.baselines._one_vs_rest: Model Estimator Data
  estimator: Estimator | Model
  estimator_: Model
ExtremeDM2LClassifier dm2l.extreme._classifier: Sized
  lambda_d alpha rank absent_weight propensities discriminant fit_intercept min_rows: setting
  max_iter tol: setting
  max_memory: number
  coef_: f[r,d]
  intercept_: f[r]
  label_vectors_: f[c,r]
  offset_: f[c]
  _dense: bool
AutoClassifier dm2l._auto._classifier: Sized
  effort time_limit max_memory categorical_features random_state verbose: setting
  models?: none | [(str, Estimator | Model)]
  n_jobs: none | int[-256:256]
  _columns: CategoryEncoder
  _features?: FeatureEncoder
  _inputs: {'features' | 'columns' | 'dense' | 'numbers'}
  models_: {Classifier}
  stack_?: Stack
  leaderboard_ label_quality_?: plain
  estimate_?: {Interval}
  held_out_?: F[...,c]
  held_out_folds_?: i[...]
ScoreClassifier dm2l._auto._score_classifier: Labelled
  scale: setting
  columns: none | i[c] | [int[-65536:65536]]
  n_features_in_: size[d]
  scale_: 'probability' | 'logit' | 'rank'
  stack_?: Stack
  _rate? _mean?: f[k]
  _cross?: f[k,k]
  _quantiles?: f[q,k]

CategoryEncoder dm2l._auto._columns
  categories: [none | [none | str | number]]
FeatureEncoder dm2l._auto._columns
  median centre scale: f[d]
  levels: i8[d]
  gaps: i8[...]
  bits: bool
  numbers?: none | i8[...]
Stack dm2l._auto._stack
  shares: b[m]
  common: f[m]
  centre scale slope offset weights: f[m,c]
  intercept: f[c]
  variance: number | f[m,c]

LabelMatrix dm2l.labels._matrix
  signs: i1[...,c]
  kind: 'multilabel' | 'binary' | 'multiclass'
  classes: none | a[...]
  names: none | O[c]
  negative: int[-1:0]
  dtype: dtype
  entries: none
  missing_as: 'missing' | 'unlabelled'
LabelCompleter dm2l.completion._completer
  thresholds: F[c]
  learnable: b[c]
  calibrator curves: none | Calibrator[c]
  by_probability: bool
  training_rows: none | TrainingRows
  correlation: none | LabelCorrelation[c]
  rules?: none | LabelRules[c]
LabelRules dm2l.labels._rules
  rules: [(str, [str], str)]
  label_names: none | [c, str]
PUCompleter dm2l.pu: LabelCompleter
  rate: F[c]
Calibrator dm2l.completion._errors
  method: 'sigmoid' | 'isotonic'
  rates+: F[c]
  fitted_labels+: b[c]
  slopes+? offsets+?: f8[k]
  lengths+?: i8[k]
  scores+? probabilities+?: f8[n]
LabelCorrelation dm2l.completion._correlation
  covariance: DenseCovariance[c] | FactorCovariance[c]
  combiner: Combiner[c]
  error_rates: ErrorRateBound
  threshold: none | number
  cutoffs: F[c]
  rates?: f[c]
  added?: number
DenseCovariance dm2l.completion._covariance
  S: f[c,c]
FactorCovariance dm2l.completion._covariance
  L: f[c,...]
  psi: f[c]
Combiner dm2l.completion._correlation
  labels with_labels_ calibrated+?: bool
  alone_?: Combiner[c]
  final_?: f[4]
  middle_: f[c]
  centre_ scale_: f[3,c]
  weights_: f[c,w]
ErrorRateBound dm2l.completion._errors
  n: i[2]
  confidence: f[2,k]
  count: i[2,k]
  label?: none | i4[2,k]
  n_by_label?: none | i[2,c]
TrainingRows dm2l.completion._completer
  digests: u8[n]
  starts: i8[...]
  labels: i4[e]
  signs: i1[e]
  scores: F[...]

Kernel dm2l._solvers.kernels
  kernel: 'linear' | 'rbf' | 'poly' | 'polynomial' | 'sigmoid' | 'laplacian' | 'cosine'
    | 'tanimoto' | 'precomputed'
  gamma degree coef0: number
FourierMap dm2l._solvers.maps
  gamma error?: number
  n_components: int
  random_state: setting
  frequencies+: f[d,...]
Interval dm2l.model_selection
  mean low high: float
MultilabelKFold dm2l.model_selection: Splitter
  n_splits shuffle random_state missing_label missing_as groups: setting
MultilabelShuffleSplit dm2l.model_selection: Splitter
  n_splits test_size train_size random_state missing_label missing_as: setting

MorganFingerprints dm2l.chemistry: Estimator
  radius: int[0:100]
  n_bits: int[1:65536]
  counts? salts?: bool
  fitted
  n_features_in_: int
  columns_?: i8[w]

MoleculeDescriptors dm2l.chemistry: Estimator
  fitted
  n_features_in_: int
  names_: [str]
TableColumns dm2l.tables._preparation: Estimator
  kinds: none | {str}
  drop: plain
  decimal: '.' | ','
  raw: bool
  _uses: [(str, str, str, str)]
  transformer_: ColumnTransformer
  n_features_in_: int

Pipeline sklearn.pipeline: Model Estimator
  steps: [(str, none | 'passthrough' | Estimator | Model)]
  memory: none
  transform_input?: none | [str]
  verbose: bool
ColumnTransformer sklearn.compose._column_transformer: Estimator Data
  transformers: [(str, 'drop' | 'passthrough' | Estimator, str | [str | int] | b[...])]
  remainder: 'drop' | 'passthrough'
  sparse_threshold: number
  transformer_weights: none | {number}
  n_jobs: none | int[1:1]
  verbose verbose_feature_names_out sparse_output_: bool
  force_int_remainder_cols?: setting
  n_features_in_: size[d]
  transformers_: [(str, 'drop' | 'passthrough' | Estimator, str | [str | int | bool] | b[...])]
  output_indices_: {slice}
  _columns: [str | [str | int] | b[...]]
  _remainder: (str, 'drop' | 'passthrough', [str | int | bool])
  _transformer_to_input_indices: {[int]}
SimpleImputer sklearn.impute._base: Estimator Data
  strategy: 'mean' | 'median' | 'most_frequent'
  missing_values: float
  fill_value: none
  add_indicator copy keep_empty_features: bool
  statistics_: f[d]
  indicator_: none | MissingIndicator[d]
  _fit_dtype _fill_dtype?: dtype
MissingIndicator sklearn.impute._base: Data
  missing_values: float
  features: 'missing-only' | 'all'
  sparse: 'auto' | bool
  error_on_new _precomputed: bool
  features_: i8[...]
  _n_features: size[d]
StandardScaler sklearn.preprocessing._data: Estimator Data
  copy with_mean with_std: bool
  n_samples_seen_: number | a[d]
  mean_ var_ scale_: none | f[d]
ClippedScaler dm2l.tables._preparation: StandardScaler
MaxAbsScaler sklearn.preprocessing._data: Estimator Data
  copy clip?: bool
  n_samples_seen_: int
  max_abs_ scale_: f[d]
Encoder: Estimator Data
  categories: 'auto'
  dtype: dtype
  max_categories min_frequency: none | number
  categories_: [d, O[...] | f[...] | i[...] | b[...]]
  _infrequent_enabled: bool
  _infrequent_indices? _default_to_infrequent_mappings?: [d, none | i8[...]]
OneHotEncoder sklearn.preprocessing._encoders: Encoder
  handle_unknown: 'error' | 'ignore' | 'infrequent_if_exist' | 'warn'
  drop drop_idx_ _drop_idx_after_grouping: none
  feature_name_combiner: 'concat'
  sparse_output: bool
  _n_features_outs: [d, int]
OrdinalEncoder sklearn.preprocessing._encoders: Encoder
  handle_unknown: 'error' | 'use_encoded_value'
  unknown_value: none | float
  encoded_missing_value: float
  _missing_indices: {}

CountVectorizer sklearn.feature_extraction.text: Estimator
  input: 'content'
  encoding: 'utf-8'
  decode_error: 'strict' | 'ignore' | 'replace'
  strip_accents: none | 'unicode' | 'ascii'
  analyzer: 'word' | 'char' | 'char_wb'
  token_pattern: '(?u)\\b\\w\\w+\\b'
  preprocessor tokenizer vocabulary: none
  stop_words: none | 'english'
  lowercase binary fixed_vocabulary_?: bool
  ngram_range: (int[1:9], int[1:9])
  min_df max_df max_features: none | number
  dtype: dtype
  vocabulary_: [w, str]
  _stop_words_id-:
TfidfVectorizer sklearn.feature_extraction.text: CountVectorizer
  norm: none | 'l1' | 'l2'
  use_idf smooth_idf sublinear_tf: bool
  _tfidf: TfidfTransformer
TfidfTransformer sklearn.feature_extraction.text
  norm: none | 'l1' | 'l2'
  use_idf smooth_idf sublinear_tf: bool
  n_features_in_?: size[w]
  idf_?: f[w]
FunctionTransformer sklearn.preprocessing._function_transformer: Estimator Data
  func inverse_func: none | function
  validate accept_sparse check_inverse: bool
  feature_names_out: none | 'one-to-one'
  kw_args inv_kw_args: none

Predictor: Model
  n_features_in_: size[d]
  feature_names_in_?: T[d]
  classes_: i[k] | f[k] | b[k]
LogisticRegression sklearn.linear_model._logistic: Estimator Predictor
  C class_weight dual fit_intercept intercept_scaling l1_ratio max_iter random_state: setting
  multi_class? penalty solver tol verbose warm_start: setting
  n_jobs: none | int[-256:256]
  coef_: f[r,d]
  intercept_: f[r]
  n_iter_?: i4[...]
Ridge sklearn.linear_model._ridge: Model Estimator
  alpha copy_X fit_intercept max_iter positive random_state solver tol: setting
  n_features_in_: size[d]
  feature_names_in_?: T[d]
  coef_: f[d]
  intercept_: number
  n_iter_: none | i4[...]
  solver_?: str
Growing: Predictor
  ccp_alpha class_weight criterion max_depth max_features max_leaf_nodes: setting
  min_impurity_decrease min_samples_leaf min_samples_split min_weight_fraction_leaf: setting
  monotonic_cst random_state: setting
  n_classes_: size[k]
  n_outputs_: int[1:1]
DecisionTreeClassifier ExtraTreeClassifier sklearn.tree._classes: Estimator Growing
  splitter: setting
  max_features_: int
  tree_: Tree[d,k]
RandomForestClassifier ExtraTreesClassifier sklearn.ensemble._forest: Estimator Growing
  estimator estimator_: DecisionTreeClassifier | ExtraTreeClassifier
  bootstrap max_samples oob_score warm_start estimator_params: setting
  n_estimators: int[1:1000000]
  n_jobs: none | int[-256:256]
  verbose: int[0:0]
  estimators_: [DecisionTreeClassifier[d,k] | ExtraTreeClassifier[d,k]]
  _n_samples? _n_samples_bootstrap?: none | int
  _sample_weight?: none
  oob_score_?: float
  oob_decision_function_?: F[...,k]
Tree sklearn.tree._tree
  n_features: size[d]
  n_classes: size[k]
  fields: str
  nodes: u1[n,...]
  values: f8[n,1,k]
HistGradientBoostingClassifier sklearn.ensemble._hist_gradient_boosting.gradient_boosting: Predictor
  loss: 'log_loss'
  class_weight early_stopping interaction_cst l2_regularization learning_rate: setting
  max_bins max_depth max_features max_iter max_leaf_nodes min_samples_leaf: setting
  monotonic_cst n_iter_no_change random_state scoring tol validation_fraction: setting
  categorical_features warm_start: setting
  verbose _random_seed: int
  _n_features: size[d]
  n_trees_per_iteration_: size[t]
  _baseline_prediction: f8[1,t]
  _bin_mapper: _BinMapper[d]
  _label_encoder?: LabelEncoder[k]
  _predictors: [[t, TreePredictor]]
  _preprocessor _scorer is_categorical_ _is_categorical_remapped: none
  _use_validation_data do_early_stopping_: bool
  train_score_ validation_score_: F[...]
  _loss- _feature_subsample_rng- _in_fit-:
_BinMapper sklearn.ensemble._hist_gradient_boosting.binning
  n_bins n_threads subsample random_state: none | int
  is_categorical known_categories: none
  bin_thresholds_: [d, F[...]]
  is_categorical_: u1[d]
  missing_values_bin_idx_: int
  n_bins_non_missing_: u4[d]
TreePredictor sklearn.ensemble._hist_gradient_boosting.predictor
  fields: str
  nodes: u1[n,...]
  binned_left_cat_bitsets raw_left_cat_bitsets: u4[0,8]
LabelEncoder sklearn.preprocessing._label
  classes_: i[k] | f[k] | b[k]

RandomState numpy.random.mtrand
  key: u4[624]
  position: int[0:624]
  has_gauss: int[0:1]
  gauss: number
"""
