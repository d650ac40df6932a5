;; Makes trees and forgets them, and counts their leaves before. Prints whether all were there, and how often
;; memory was collected.
(define (tree depth) (if (= depth 0) '() (cons (tree (- depth 1)) (tree (- depth 1)))))
(define (leaves tree) (if (null? tree) 1 (+ (leaves (car tree)) (leaves (cdr tree)))))
(define kept (tree 12))
(define (sum rounds) (if (= rounds 0) 0 (+ (leaves (tree 12)) (sum (- rounds 1)))))
(define right (and (= (sum 20) (* 20 4096)) (= (leaves kept) 4096)))
(format #t "~a, ~a collections~%" (if right "right" "wrong") (assq-ref (gc-stats) 'gc-times))
