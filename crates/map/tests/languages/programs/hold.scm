;; Holds MiB of objects, half of them in large vectors, lets go of a part, and says what libgc counts.
(define mib (string->number (cadr (command-line))))
(define small
  (let loop ((left (quotient (* mib 1048576) 32)) (list '()))
    (if (= left 0) list (loop (- left 1) (cons left list)))))
(define large
  (let loop ((left (quotient mib 2)) (list '()))
    (if (= left 0) list (loop (- left 1) (cons (make-vector 131072 left) list)))))
(set! large (list-head large (quotient mib 4)))
(gc)
(gc)
(define says (gc-stats))
(define (says-of name) (assq-ref says name))
(format #t "heap=~a free=~a\n" (says-of 'heap-size) (says-of 'heap-free-size))
(force-output)
(read-char)
(display (+ (length small) (length large)))
