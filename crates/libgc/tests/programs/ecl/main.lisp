;;; Trees, hash tables, weak pointers, finalizers, threads, bignums, strings, and the compiler itself.

(defun tree (depth)
  (if (zerop depth) nil (cons (tree (1- depth)) (tree (1- depth)))))

(defun leaves (tree)
  (if (null tree) 1 (+ (leaves (car tree)) (leaves (cdr tree)))))

(defun say (name value)
  (format t "~a: ~s~%" name value)
  (finish-output))

(defvar *kept* (tree 14))

(defun trees ()
  (say "trees" (loop for n below 300 sum (leaves (tree (+ 8 (mod n 5)))))))

(defun tables ()
  (let ((table (make-hash-table :test #'equal)))
    (dotimes (n 60000)
      (setf (gethash (format nil "key-~d" n) table) (list n (* n n))))
    (dotimes (n 60000)
      (unless (zerop (mod n 3))
        (remhash (format nil "key-~d" n) table)))
    (say "tables" (list (hash-table-count table)
                        (loop for value being the hash-values of table sum (second value))))))

(defun weak-tables ()
  (let ((table (make-hash-table :test #'eq :weakness :key))
        (live (loop for n below 200 collect (vector n))))
    (dolist (key live)
      (setf (gethash key table) (aref key 0)))
    (dotimes (n 20000)
      (setf (gethash (vector n) table) n))
    (ext:gc t)
    (say "weak tables"
         (list (loop for key in live sum (gethash key table))
               (< (hash-table-count table) 5000)))))

(defun weak-pointers ()
  (let* ((live (loop for n below 100 collect (vector n)))
         (to-live (mapcar #'ext:make-weak-pointer live))
         (to-dead (loop for n below 1000 collect (ext:make-weak-pointer (vector n)))))
    (ext:gc t)
    (say "weak pointers"
         (list (every (lambda (pointer object) (eq (ext:weak-pointer-value pointer) object)) to-live live)
               (> (count nil to-dead :key #'ext:weak-pointer-value) 900)))))

(defvar *finalized* 0)

(defun finalizers ()
  (flet ((make ()
           (dotimes (n 500)
             (ext:set-finalizer (make-array 4) (lambda (object)
                                                 (declare (ignore object))
                                                 (incf *finalized*))))))
    (make)
    (loop repeat 10 until (> *finalized* 450)
          do (ext:gc t) (tree 12))
    (say "finalizers" (> *finalized* 450))))

(defun work (seed)
  (let ((sum 0) (list nil))
    (dotimes (n 40000 (+ sum (length list)))
      (incf sum (mod (* seed n) 7))
      (push (make-array 3 :initial-element n) list)
      (when (zerop (mod n 1000))
        (setf list nil)))))

(defun threads ()
  (let* ((lock (mp:make-lock))
         (results nil)
         (all (loop for seed below 8
                    collect (let ((seed seed))
                              (mp:process-run-function
                               (format nil "worker ~d" seed)
                               (lambda ()
                                 (let ((sum (work seed)))
                                   (mp:with-lock (lock)
                                     (push (list seed sum) results)))))))))
    (mapc #'mp:process-join all)
    (say "threads" (sort results #'< :key #'first)))
  (let* ((box (mp:make-mailbox :count 64))
         (maker (mp:process-run-function
                 'maker (lambda ()
                          (dotimes (n 5000)
                            (mp:mailbox-send box (make-string 20 :initial-element #\x)))))))
    (say "mailbox" (loop repeat 5000 sum (length (mp:mailbox-read box))))
    (mp:process-join maker)))

;; Threads that end soon, while others collect.
(defun short-threads ()
  (say "short threads"
       (loop repeat 12
             sum (loop for thread in (loop repeat 10
                                           collect (mp:process-run-function
                                                    'short
                                                    (lambda () (length (loop for n below 1000 collect (make-string 10))))))
                       sum (mp:process-join thread)))))

(defun numbers ()
  (say "numbers" (mod (loop for n from 1 to 500 sum (loop with f = 1 for k from 1 to n do (setf f (* f k)) finally (return f)))
                      1000000007))
  (say "fractions" (denominator (loop for n from 1 to 300 sum (/ 1 n))))
  (say "floats" (format nil "~,6f" (loop for n from 1 to 20000 sum (/ 1d0 n)))))

(defstruct point x y)
(defclass shape () ((points :initarg :points :reader points)))
(defgeneric size (shape))
(defmethod size ((shape shape)) (length (points shape)))

(defun objects ()
  (say "objects"
       (loop for n below 5000
             sum (size (make-instance 'shape
                                      :points (loop for k below (mod n 5) collect (make-point :x k :y n))))))
  (say "conditions"
       (loop for n below 3000
             count (handler-case (if (oddp n) (error "odd ~d" n) nil)
                     (error (condition) (plusp (length (princ-to-string condition))))))))

(trees)
(tables)
(weak-tables)
(weak-pointers)
(finalizers)
(threads)
(short-threads)
(numbers)
(objects)
(say "kept" (leaves *kept*))
